import { hashApiKey } from '@wellspring/core/api-key';
import { newId } from '@wellspring/core/ids';
import { apiKeys, users } from '@wellspring/store/collections/users';
import { findOrInsert } from '@wellspring/store/insert-new';
import type { Deps } from './deps.ts';

const USERNAME = 'admin';

/**
 * Creates the user `admin` and its API key. Idempotent.
 * @param always adds the key (preset or new) in any case; otherwise only to a new user, so that a revoked key stays
 *   revoked
 */
export async function applyPresets(
  { store, clock }: Pick<Deps, 'store' | 'clock'>,
  apiKey: string,
  always: boolean,
): Promise<void> {
  const userRows = store.collection(users);
  const existing = await userRows.find({ username: USERNAME });
  if (existing && !always) return;
  const now = Math.floor(clock.now() / 1000);
  const user =
    existing ??
    (await findOrInsert(userRows, { username: USERNAME }, () => ({
      id: newId('u'),
      username: USERNAME,
      email: 'admin@localhost',
      plan: 'free' as const,
      daily_invocations_quota: null,
      daily_compute_time_quota: null,
      created_at: now,
      updated_at: now,
    })));
  const hash = hashApiKey(apiKey);
  const key = await findOrInsert(store.collection(apiKeys), { hash }, () => ({
    id: newId('key'),
    user_id: user.id,
    hash,
    name: null,
    created_at: now,
    last_used_at: null,
  }));
  if (key.user_id !== user.id)
    throw new Error('WELLSPRING_API_KEY belongs to a user other than admin: set another key.');
}
