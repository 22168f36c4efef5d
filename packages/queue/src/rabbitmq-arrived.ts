import type { Channel, ConsumeMessage } from '@wellspring/amqp/channel';
import type { Entry } from './lanes.ts';

interface Delivery {
  channel: Channel;
  message: ConsumeMessage;
}

/** A job in memory, of a partition that this process has. */
export interface Arrived extends Entry {
  id: string;
  payload: string;
  /** See JobMessage. */
  redelivered: true | undefined;
  /** Where it is confirmed; undefined: it is in the inbox, or its channel is gone and it will come again. */
  delivery: Delivery | undefined;
  /** More of them on the same channel, confirmed with it. */
  copies: Delivery[];
  /** It is a row of the inbox, and no message any more. */
  stored: boolean;
  /** It was handed out. */
  out: boolean;
  /** performance.now() of that. */
  outAt: number;
  isDone: boolean;
  /** performance.now() of its arrival. */
  arrivedAt: number;
}

/** Messages at a time that are not confirmed; fewer cost throughput, more memory. */
export const PREFETCH = 256;
/** With half of those taken, keys that have so many of them and are older than this go to the inbox. */
const MANY = PREFETCH / 8;
const SLOW_MS = 500;
/** Jobs that are not done after this time go there in any case: the broker gives a consumer half an hour. */
const VERY_SLOW_MS = 60_000;

export interface SlowOptions {
  /** Memory is short. */
  isTight: boolean;
  /** performance.now() since when the key waits for its admission (see ConsumeOptions); undefined: it does not. */
  admissionOf(key: string): number | undefined;
}

/**
 * Jobs of keys that are too slow for the broker, by key and in order. Keys that wait for their admission count as slow
 * however few jobs they have: thousands of them would take all of PREFETCH, and stop the jobs of every other key.
 */
export function slowOf(
  jobs: Iterable<Arrived>,
  { isTight, admissionOf }: SlowOptions,
): Map<string, Arrived[]> {
  const now = performance.now();
  const byKey = new Map<string, Arrived[]>();
  let held = 0;
  for (const job of jobs) {
    if (!job.delivery) continue;
    held += 1;
    const own = byKey.get(job.key);
    if (own) own.push(job);
    else byKey.set(job.key, [job]);
  }
  const isFull = held >= PREFETCH / 2;
  for (const [key, own] of byKey) {
    const age = now - own[0]!.arrivedAt;
    const isHeldUp = now - (admissionOf(key) ?? now) > SLOW_MS;
    const isSlow =
      age > VERY_SLOW_MS ||
      (isFull && isHeldUp) ||
      (isFull && age > SLOW_MS && own.length >= MANY) ||
      (isTight && own.length > 1);
    if (!isSlow) byKey.delete(key);
  }
  return byKey;
}
