import { timingSafeEqual } from 'node:crypto';
import type { Principal } from '@wellspring/contract/principal';
import { hashApiKey } from '@wellspring/core/api-key';
import { unauthorized } from '@wellspring/core/problem';
import type { Deps } from '@wellspring/runtime/deps';
import { type ApiKeyRow, apiKeys, members } from '@wellspring/store/collections/users';

const BEARER = /^Bearer ([A-Za-z0-9._~+/-]{16,256})$/i;

/** The key of an Authorization header. @throws Problem 401 */
function bearerKey(header: string | undefined): string {
  const key = header === undefined ? undefined : BEARER.exec(header)?.[1];
  if (key === undefined) throw unauthorized();
  return key;
}

/** Minimum interval between two recorded uses of a key. */
const NOTE_INTERVAL_S = 60;

/**
 * The principal of an API key. Read for each request, so revoked keys and memberships lose effect immediately.
 * No request waits for the note of its key's use.
 * @throws Problem 401
 */
export function createAuthenticator({ store, clock }: Pick<Deps, 'store' | 'clock'>) {
  const keyRows = store.collection(apiKeys);
  const memberRows = store.collection(members);
  /** Keys whose use is being recorded. */
  const noting = new Set<string>();

  function noteUse({ id, last_used_at }: ApiKeyRow): void {
    const now = Math.floor(clock.now() / 1000);
    if (noting.has(id) || now - (last_used_at ?? 0) < NOTE_INTERVAL_S) return;
    noting.add(id);
    const noted = keyRows.patch(id, { last_used_at: now });
    // After a failed write, a later request records the use.
    noted.catch(() => {}).finally(() => noting.delete(id));
  }

  return async (header: string | undefined): Promise<Extract<Principal, { kind: 'user' }>> => {
    const row = await keyRows.find({ hash: hashApiKey(bearerKey(header)) });
    if (!row) throw unauthorized();
    noteUse(row);
    const memberships = await memberRows.list({ where: { user_id: row.user_id }, limit: 1000 });
    return {
      kind: 'user',
      user_id: row.user_id,
      key_id: row.id,
      org_ids: memberships.map(({ org_id }) => org_id),
    };
  };
}

/** Authenticates the operator. @throws Problem 401 */
export function operatorPrincipal(header: string | undefined, adminKey: string | null): Principal {
  const given = Buffer.from(hashApiKey(bearerKey(header)));
  if (adminKey === null || !timingSafeEqual(given, Buffer.from(hashApiKey(adminKey)))) {
    throw unauthorized('The operator key is required: Authorization: Bearer <key>.');
  }
  return { kind: 'operator' };
}
