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

/**
 * The key of a job of a source. With concurrency, jobs are spread over as many shards, without order between them.
 * @param n number of the job, of any sequence
 */
export const spreadOrderingKey = (
  { id, concurrency }: { id: string; concurrency: number },
  n: number,
): string => formatOrderingKey({ sourceId: id, shard: concurrency > 1 ? n % concurrency : undefined });

export function parseOrderingKey(key: string): OrderingKey {
  const at = key.indexOf(SEPARATOR);
  return at < 0 ? { sourceId: key } : { sourceId: key.slice(0, at), shard: Number(key.slice(at + 1)) };
}
