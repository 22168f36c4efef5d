import { hashApiKey } from '@wellspring/core/api-key';
import { newId } from '@wellspring/core/ids';
import { apiKeys, type UserRow, users } from '@wellspring/store/collections/users';
import { insertNew } from '@wellspring/store/insert-new';
import { type Collection, ConflictError } from '@wellspring/store/port';
import type { Deps } from './deps.ts';

const USERNAME = 'admin';

/**
 * The user `admin`, and its API key. Repeating it is harmless.
 * @param always a preset or new key: the user gets it in any case; else only a new user does, so that a key that
 *   was made on first start and revoked later stays revoked
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
    await insertNew(keyRows, () => ({ id: newId('key'), user_id: user.id, hash, created_at: now }));
  } catch (error) {
    if (!(error instanceof ConflictError)) throw error;
    const taken = await keyRows.find({ hash });
    if (taken && taken.user_id !== user.id) {
      throw new Error('WELLSPRING_API_KEY is the key of another user than admin.');
    }
  }
}

/** The user; another process may make it at the same moment. */
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
