import type { CollectionDefinition } from '../collection-definition.ts';

/** Time for which a key is kept. */
export const IDEMPOTENCY_MS = 24 * 3_600_000;

/** A request made with an Idempotency-Key. */
export interface IdempotencyRow {
  /** sha256 of user id and key. */
  id: string;
  /** sha256 of method, path, query and body. */
  request_hash: string;
  /** Null during the first call; the body is sealed (core/seal). */
  response: { status: number; headers: Record<string, string>; body: string } | null;
  /** The process that handles the request. */
  process: string;
  created_at_ms: number;
}
export const idempotencyKeys: CollectionDefinition<IdempotencyRow> = {
  name: 'idempotency_keys',
  indexes: [{ fields: ['created_at_ms'] }],
};
