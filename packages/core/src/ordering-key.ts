/**
 * Jobs with one ordering key run in order: all jobs of a source, or of one of its shards when it has a concurrency.
 */
export interface OrderingKey {
  sourceId: string;
  shard?: number | undefined;
}

const SEPARATOR = '#';
const AFTER_SEPARATOR = String.fromCharCode(SEPARATOR.charCodeAt(0) + 1);

export const formatOrderingKey = ({ sourceId, shard }: OrderingKey): string =>
  shard === undefined ? sourceId : `${sourceId}${SEPARATOR}${shard}`;

export function parseOrderingKey(key: string): OrderingKey {
  const at = key.indexOf(SEPARATOR);
  return at < 0 ? { sourceId: key } : { sourceId: key.slice(0, at), shard: Number(key.slice(at + 1)) };
}

/** The keys of all shards of a source sort within this range, beside the key of the source itself. */
export const shardRange = (sourceId: string): { from: string; before: string } => ({
  from: sourceId + SEPARATOR,
  before: sourceId + AFTER_SEPARATOR,
});
