import { ack, type Channel, type ConsumeMessage } from '@wellspring/amqp/channel';
import type { WaitingJob } from '../job-source.ts';

export interface Delivery {
  channel: Channel;
  message: ConsumeMessage;
}

/** A job in memory, of a partition that this process owns. */
export interface ReceivedJob extends WaitingJob {
  /** Of the lease under which it was received. */
  readonly epoch: number;
  /**
   * Its message and duplicates of it, to be acknowledged; none: it is in the overflow, or its channel is lost and it will
   * be redelivered.
   */
  deliveries: readonly Delivery[];
  /**
   * Of its row in the overflow: then the payload is in memory only while the job is out. undefined: a message of the broker.
   */
  seq: number | undefined;
  /** `attempts` is known; otherwise it is read when the job is handed out. */
  hasAttempts: boolean;
  /** performance.now() at which it was handed out to a handler; undefined while it waits. */
  outSince: number | undefined;
  /** performance.now() of its arrival. */
  arrivedAt: number;
}

/** One that is a message of the broker. */
export type MessageJob = ReceivedJob & { payload: string };

type Received = Pick<
  ReceivedJob,
  'id' | 'epoch' | 'key' | 'seq' | 'payload' | 'publishedAt' | 'bytes' | 'redelivered'
>;

/** @param deliveries none: a row of the overflow */
export const receivedJob = (job: Received, deliveries: readonly Delivery[]): ReceivedJob => ({
  ...job,
  attempts: 0,
  deliveries,
  // A job that has failed is flagged as redelivered.
  hasAttempts: !job.redelivered,
  outSince: undefined,
  arrivedAt: performance.now(),
});

export function acknowledge(job: ReceivedJob): void {
  for (const { channel, message } of job.deliveries) ack(channel, message);
  job.deliveries = [];
}

/** Unacknowledged messages per partition: fewer cost throughput, more cost memory. */
export const PREFETCH = 256;
/** When half of the prefetch is used, keys with this part of it, older than SLOW_MS, move to the overflow. */
const SLOW_PART = 1 / 8;
const SLOW_MS = 500;
/** When half of the prefetch is used, keys with jobs of this age move, however few: many of them would use it up. */
const BLOCKING_MS = 5_000;
/** Jobs of this age move in any case: RabbitMQ closes channels after half an hour without acknowledgement. */
const VERY_SLOW_MS = 60_000;

export interface SlowOptions {
  /** The present one of the partition. */
  prefetch: number;
  isUnderMemoryPressure: boolean;
  /** performance.now() at which the key began to wait for its admission; undefined if it does not wait. */
  admissionSince(key: string): number | undefined;
}

/**
 * The jobs of keys that are too slow for the prefetch window, by key and in order. Keys waiting for admission count as
 * slow regardless of their number of jobs: thousands of them would fill the window and block all other keys.
 */
export function slowJobsByKey(
  jobs: Iterable<ReceivedJob>,
  { prefetch, isUnderMemoryPressure, admissionSince }: SlowOptions,
): Map<string, MessageJob[]> {
  const now = performance.now();
  const byKey = Map.groupBy(
    [...jobs].filter((job): job is MessageJob => job.deliveries.length > 0),
    ({ key }) => key,
  );
  const held = byKey.values().reduce((sum, own) => sum + own.length, 0);
  const isFull = held >= prefetch / 2;
  for (const [key, own] of byKey) {
    const age = now - own[0]!.arrivedAt;
    const isBlocked = now - (admissionSince(key) ?? now) > SLOW_MS;
    const isSlow =
      age > VERY_SLOW_MS ||
      (isFull && (isBlocked || age > BLOCKING_MS)) ||
      (isFull && age > SLOW_MS && own.length >= prefetch * SLOW_PART) ||
      (isUnderMemoryPressure && own.length > 1);
    if (!isSlow) byKey.delete(key);
  }
  return byKey;
}
