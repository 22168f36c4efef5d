import { LIMITS } from '@wellspring/contract/limits';
import { hashApiKey, newApiKey } from '@wellspring/core/api-key';
import { newId } from '@wellspring/core/ids';
import { notFound } from '@wellspring/core/problem';
import { changedTopic } from '@wellspring/pubsub/port';
import { checkOwner } from '@wellspring/runtime/check-owner';
import type { Deps } from '@wellspring/runtime/deps';
import { checkRoom } from '@wellspring/store/check-room';
import { type ApiKeyRow, apiKeys } from '@wellspring/store/collections/users';
import { insertNew } from '@wellspring/store/insert-new';

type KeyDeps = Pick<Deps, 'store' | 'clock' | 'pubsub'>;

const presentApiKey = ({ id, name, created_at, last_used_at }: ApiKeyRow) => ({
  id,
  name,
  created_at,
  last_used_at,
});

/** The keys of the user, newest first, without their texts. */
export async function listApiKeys({ store }: Pick<KeyDeps, 'store'>, user_id: string) {
  return (await store.collection(apiKeys).list({ where: { user_id } })).map(presentApiKey);
}

/** Creates a key; only this response contains its text. @throws Problem 404: the user is deleted meanwhile; 409 */
export async function issueApiKey({ store, clock }: KeyDeps, userId: string, name: string | null = null) {
  const rows = store.collection(apiKeys);
  await checkRoom(rows, { user_id: userId }, LIMITS.apiKeys, 'API keys');
  const api_key = newApiKey();
  const row = await insertNew(rows, () => ({
    id: newId('key'),
    user_id: userId,
    hash: hashApiKey(api_key),
    name,
    created_at: Math.floor(clock.now() / 1000),
    last_used_at: null,
  }));
  await checkOwner(store, userId, () => rows.remove(row.id));
  return { ...presentApiKey(row), api_key };
}

/** Revokes a key of the user; streams opened with it end. @throws Problem 404 */
export async function revokeApiKey({ store, pubsub }: KeyDeps, userId: string, keyId: string): Promise<void> {
  const rows = store.collection(apiKeys);
  const row = await rows.get(keyId);
  if (row?.user_id !== userId) throw notFound('API key', keyId);
  await rows.remove(keyId);
  pubsub.publish(changedTopic(keyId));
}
