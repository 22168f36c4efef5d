import type { PropDescriptor } from '@wellspring/contract/definition';
import type { Principal } from '@wellspring/contract/principal';
import { invalidParameter } from '@wellspring/core/problem';
import { type AccountRow, accounts } from '@wellspring/store/collections/accounts';
import { members } from '@wellspring/store/collections/users';
import type { Deps } from './deps.ts';

export type Credentials = Record<string, string>;

/** Accounts in the app props of a source or a workflow. */
export interface Accounts {
  /**
   * @param ownerId of what is deployed
   * @throws Problem 400 that names the prop: the account is unknown, of somebody else or of another app, or lacks fields
   */
  check(
    principal: Principal,
    ownerId: string,
    props: readonly PropDescriptor[],
    values: Record<string, unknown>,
  ): Promise<void>;
  /** The accounts that the owner may use at present, by prop name. Others are left out. */
  find(
    ownerId: string,
    props: readonly PropDescriptor[],
    values: Record<string, unknown>,
  ): Promise<Map<string, AccountRow>>;
  /** Their credentials in clear. */
  open(found: ReadonlyMap<string, AccountRow>): Record<string, Credentials>;
}

/** The account id in the value of an app prop. */
const accountOf = (value: unknown): string | undefined => {
  const { authProvisionId } = (value ?? {}) as { authProvisionId?: unknown };
  return typeof authProvisionId === 'string' ? authProvisionId : undefined;
};

const isOrg = (id: string) => id.startsWith('o_');

export function createAccounts({ store, seal }: Pick<Deps, 'store' | 'seal'>): Accounts {
  const rows = store.collection(accounts);
  const memberRows = store.collection(members);

  const isMember = async (orgId: string, userId: string) =>
    (await memberRows.get(`${orgId}/${userId}`)) !== undefined;

  /** An owner may use its own accounts, a user also those of its organizations, an organization also those lent by members. */
  async function mayUse(ownerId: string, account: AccountRow): Promise<boolean> {
    if (account.owner_id === ownerId) return true;
    if (isOrg(account.owner_id) === isOrg(ownerId)) return false;
    return isOrg(ownerId) ? isMember(ownerId, account.owner_id) : isMember(account.owner_id, ownerId);
  }

  /** Only a member itself lends its account to an organization, again with each new deployment. */
  const mayGive = (principal: Principal, ownerId: string, { owner_id }: AccountRow) =>
    principal.kind === 'operator'
      ? isOrg(owner_id) || owner_id === ownerId
      : owner_id === principal.user_id || principal.org_ids.includes(owner_id);

  const open = ({ id, credentials }: AccountRow) => JSON.parse(seal.open(credentials, id)) as Credentials;

  return {
    async check(principal, ownerId, props, values) {
      for (const prop of props) {
        const id = prop.type === 'app' ? accountOf(values[prop.name]) : undefined;
        if (id === undefined) continue;
        const param = `configured_props.${prop.name}`;
        const account = await rows.get(id);
        if (!account || !mayGive(principal, ownerId, account) || !(await mayUse(ownerId, account)))
          throw invalidParameter(param, `${param} names an account that does not exist: ${id}.`);
        if (account.app !== prop.app)
          throw invalidParameter(
            param,
            `${param} needs an account of ${prop.app}; ${id} is of ${account.app}.`,
          );
        const missing = missingField(prop, open(account));
        if (missing !== undefined)
          throw invalidParameter(
            param,
            `${param} needs an account with the field ${missing}; ${id} has none.`,
          );
      }
    },
    async find(ownerId, props, values) {
      const found = new Map<string, AccountRow>();
      for (const { name, type, app } of props) {
        const id = type === 'app' ? accountOf(values[name]) : undefined;
        const account = id === undefined ? undefined : await rows.get(id);
        if (account && account.app === app && (await mayUse(ownerId, account))) found.set(name, account);
      }
      return found;
    },
    open: (found) => Object.fromEntries([...found].map(([name, account]) => [name, open(account)])),
  };
}

/** The first field that the app declares as required and the credentials lack. */
function missingField({ customFields }: PropDescriptor, credentials: Credentials): string | undefined {
  if (!Array.isArray(customFields)) return undefined;
  for (const field of customFields) {
    const { name, optional } = (typeof field === 'string' ? { name: field } : (field ?? {})) as {
      name?: unknown;
      optional?: unknown;
    };
    if (typeof name === 'string' && optional !== true && !Object.hasOwn(credentials, name)) return name;
  }
  return undefined;
}
