/**
 * Jobs with one ordering key run in order: all jobs of a source, or of one of its shards when it has a concurrency.
 */
export interface OrderingKey {
  sourceId: string;
  shard?: number | undefined;
}

const SEPARATOR = '#';

export const formatOrderingKey = ({ sourceId, shard }: OrderingKey): string =>
  shard === undefined ? sourceId : `${sourceId}${SEPARATOR}${shard}`;

export function parseOrderingKey(key: string): OrderingKey {
  const at = key.indexOf(SEPARATOR);
  return at < 0 ? { sourceId: key } : { sourceId: key.slice(0, at), shard: Number(key.slice(at + 1)) };
}
