import { hashApiKey } from '@wellspring/core/api-key';
import { newId } from '@wellspring/core/ids';
import { apiKeys, type UserRow, users } from '@wellspring/store/collections/users';
import { insertNew } from '@wellspring/store/insert-new';
import { type Collection, ConflictError } from '@wellspring/store/port';
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
  const now = Math.floor(clock.now() / 1000);
  const userRows = store.collection(users);
  const existing = await userRows.find({ username: USERNAME });
  const user = existing ?? (await newAdmin(userRows, now));
  if (existing && !always) return;
  const keyRows = store.collection(apiKeys);
  const hash = hashApiKey(apiKey);
  try {
    await insertNew(keyRows, () => ({
      id: newId('key'),
      user_id: user.id,
      hash,
      name: null,
      created_at: now,
      last_used_at: null,
    }));
  } catch (error) {
    if (!(error instanceof ConflictError)) throw error;
    const taken = await keyRows.find({ hash });
    if (taken && taken.user_id !== user.id) {
      throw new Error('WELLSPRING_API_KEY belongs to a user other than admin: set another key.');
    }
  }
}

/** The user; another process may create it at the same moment. */
async function newAdmin(rows: Collection<UserRow>, now: number): Promise<UserRow> {
  try {
    return await insertNew(rows, () => ({
      id: newId('u'),
      username: USERNAME,
      email: 'admin@localhost',
      plan: 'free' as const,
      daily_invocations_quota: null,
      daily_compute_time_quota: null,
      created_at: now,
      updated_at: now,
    }));
  } catch (error) {
    const other = error instanceof ConflictError ? await rows.find({ username: USERNAME }) : undefined;
    if (!other) throw error;
    return other;
  }
}
