import {
  createAccount,
  deleteAccount,
  getAccount,
  listMyAccounts,
  listOrgAccounts,
  updateAccount,
} from '@wellspring/contract/endpoints/accounts';
import { LIMITS } from '@wellspring/contract/limits';
import type { Principal } from '@wellspring/contract/principal';
import { newId } from '@wellspring/core/ids';
import { invalidParameter, notFound } from '@wellspring/core/problem';
import { type Route, route } from '@wellspring/http/bind';
import { listPage, type PageInput } from '@wellspring/http/paging';
import { canAccess, checkMember, ownerFor } from '@wellspring/http/principal';
import type { Credentials } from '@wellspring/runtime/accounts';
import { checkOwner } from '@wellspring/runtime/check-owner';
import { type AccountRow, accounts } from '@wellspring/store/collections/accounts';
import { insertNew } from '@wellspring/store/insert-new';
import { modify } from '@wellspring/store/port';
import type { SourcesContext } from './context.ts';
import { checkName } from './name.ts';

const MAX_FIELD_CHARS = 256;

interface ListInput extends PageInput {
  app?: string | undefined;
  include_credentials?: string | undefined;
}

export function accountRoutes({ deps: { store, seal, clock } }: Pick<SourcesContext, 'deps'>): Route[] {
  const rows = store.collection(accounts);

  const presentAccount = ({ credentials, ...shown }: AccountRow, include?: string) => ({
    ...shown,
    ...(include === '1' || include === 'true'
      ? { credentials: JSON.parse(seal.open(credentials, shown.id)) as Credentials }
      : {}),
  });

  async function find(principal: Principal, id: string): Promise<AccountRow> {
    const account = await rows.get(id);
    if (!account || !canAccess(principal, account.owner_id)) throw notFound('account', id);
    return account;
  }

  const list = async (owner_id: string, { app, include_credentials, ...page }: ListInput) => {
    const found = await listPage(rows, { owner_id, ...(app === undefined ? {} : { app }) }, page);
    return { ...found, data: found.data.map((row) => presentAccount(row, include_credentials)) };
  };

  return [
    route(createAccount, async ({ input: { app, name, credentials, org_id }, principal }) => {
      const owner = ownerFor(principal, org_id);
      const text = checkCredentials(credentials);
      const seconds = Math.floor(clock.now() / 1000);
      const account = await insertNew(rows, () => {
        const id = newId('apn');
        return {
          id,
          ...owner,
          app,
          name: checkName(name ?? app),
          credentials: seal.seal(text, id),
          created_at: seconds,
          updated_at: seconds,
        };
      });
      await checkOwner(store, owner.owner_id, () => rows.remove(account.id));
      return presentAccount(account);
    }),
    route(listMyAccounts, async ({ input, principal }) =>
      list(ownerFor(principal, input.org_id).owner_id, input),
    ),
    route(listOrgAccounts, ({ params, input, principal }) => {
      checkMember(principal, params.org_id);
      return list(params.org_id, input);
    }),
    route(getAccount, async ({ params, input, principal }) =>
      presentAccount(await find(principal, params.id), input.include_credentials),
    ),
    route(updateAccount, async ({ params, input: { name, credentials }, principal }) => {
      const { id } = await find(principal, params.id);
      const account = await modify(rows, id, (row) => ({
        ...row,
        ...(name == null ? {} : { name: checkName(name) }),
        ...(credentials === undefined ? {} : { credentials: seal.seal(checkCredentials(credentials), id) }),
        updated_at: Math.floor(clock.now() / 1000),
      }));
      if (!account) throw notFound('account', id);
      return presentAccount(account);
    }),
    route(deleteAccount, async ({ params, principal }) => {
      const { id } = await find(principal, params.id);
      await rows.remove(id);
    }),
  ];
}

/** JSON text of the fields of `$auth`. @throws Problem 400 */
function checkCredentials(given: Credentials): string {
  const refuse = (why: string) => invalidParameter('credentials', why);
  if (Object.keys(given).some((name) => name === '' || name.length > MAX_FIELD_CHARS || name === '__proto__'))
    throw refuse(`The fields of credentials must have names of 1 to ${MAX_FIELD_CHARS} characters.`);
  const text = JSON.stringify(given);
  if (Buffer.byteLength(text) > LIMITS.credentialsBytes)
    throw refuse(`credentials have more than ${LIMITS.credentialsBytes / 1024} KB.`);
  return text;
}
