import type { Channel, ConsumeMessage } from '@wellspring/amqp/channel';
import type { WaitingJob } from '../job-source.ts';

interface Delivery {
  channel: Channel;
  message: ConsumeMessage;
}

/** A job in memory, of a partition that this process owns. */
export interface ReceivedJob extends WaitingJob {
  payload: string;
  /** To be acknowledged; undefined: it is in the overflow, or its channel is lost and it will be redelivered. */
  delivery: Delivery | undefined;
  /** Duplicates on the same channel, acknowledged together with it. */
  duplicates: Delivery[];
  /** It is a row of the overflow, and no longer a message. */
  stored: boolean;
  /** Handed out to a handler. */
  out: boolean;
  /** performance.now() of the handing out. */
  outAt: number;
  isDone: boolean;
  /** performance.now() of its arrival. */
  arrivedAt: number;
}

/** Unacknowledged messages per partition: fewer cost throughput, more cost memory. */
export const PREFETCH = 256;
/** When half of the prefetch is used, keys with this part of it, older than SLOW_MS, move to the overflow. */
const SLOW_PART = 1 / 8;
const SLOW_MS = 500;
/** Jobs of this age move in any case: RabbitMQ closes channels after half an hour without acknowledgement. */
const VERY_SLOW_MS = 60_000;

export interface SlowOptions {
  /** The present one of the partition. */
  prefetch: number;
  isUnderMemoryPressure: boolean;
  /** performance.now() at which the key began to wait for its admission; undefined: not waiting. */
  admissionSince(key: string): number | undefined;
}

/**
 * The jobs of keys that are too slow for the prefetch window, by key and in order. Keys waiting for admission count as
 * slow regardless of their number of jobs: thousands of them would fill the window and block all other keys.
 */
export function slowJobsByKey(
  jobs: Iterable<ReceivedJob>,
  { prefetch, isUnderMemoryPressure, admissionSince }: SlowOptions,
): Map<string, ReceivedJob[]> {
  const now = performance.now();
  const byKey = new Map<string, ReceivedJob[]>();
  let held = 0;
  for (const job of jobs) {
    if (!job.delivery) continue;
    held += 1;
    const own = byKey.get(job.key);
    if (own) own.push(job);
    else byKey.set(job.key, [job]);
  }
  const isFull = held >= prefetch / 2;
  for (const [key, own] of byKey) {
    const age = now - own[0]!.arrivedAt;
    const isBlocked = now - (admissionSince(key) ?? now) > SLOW_MS;
    const isSlow =
      age > VERY_SLOW_MS ||
      (isFull && isBlocked) ||
      (isFull && age > SLOW_MS && own.length >= prefetch * SLOW_PART) ||
      (isUnderMemoryPressure && own.length > 1);
    if (!isSlow) byKey.delete(key);
  }
  return byKey;
}
