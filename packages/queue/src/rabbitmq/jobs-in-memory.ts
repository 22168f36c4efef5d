import { ack } from '@wellspring/amqp/channel';
import type { JobMessage } from './message.ts';
import type { ReceivedJob } from './received-job.ts';

/** Jobs of a partition in memory, with their number per key and their size. */
export function createJobsInMemory() {
  /** By id, in order of arrival. */
  const jobs = new Map<string, ReceivedJob>();
  const counts = new Map<string, number>();
  let bytes = 0;
  let usualBytes = 0;
  return {
    jobs,
    get bytes() {
      return bytes;
    },
    /** Size of the largest payload of late; falls slowly when smaller ones follow. */
    get usualBytes() {
      return usualBytes;
    },
    countOf: (key: string) => counts.get(key) ?? 0,
    /** @param delivery undefined: loaded from the overflow */
    add(
      { id, key, payload, at, redelivered }: Omit<JobMessage, 'purge'>,
      failures: number,
      delivery: ReceivedJob['delivery'],
    ): ReceivedJob {
      const job: ReceivedJob = {
        id,
        seq: 0,
        key,
        attempts: failures,
        publishedAt: at,
        payload,
        bytes: payload.length,
        redelivered,
        stored: !delivery,
        delivery,
        duplicates: [],
        out: false,
        outAt: 0,
        isDone: false,
        arrivedAt: performance.now(),
      };
      jobs.set(id, job);
      counts.set(key, (counts.get(key) ?? 0) + 1);
      bytes += payload.length;
      usualBytes = Math.max(payload.length, usualBytes + (payload.length - usualBytes) / 16);
      return job;
    },
    remove({ id, key, payload }: ReceivedJob): void {
      if (!jobs.delete(id)) return;
      bytes -= payload.length;
      const left = counts.get(key)! - 1;
      if (left > 0) counts.set(key, left);
      else counts.delete(key);
    },
  };
}

export function acknowledge(job: ReceivedJob): void {
  for (const { channel: from, message } of job.duplicates) ack(from, message);
  if (job.delivery) ack(job.delivery.channel, job.delivery.message);
  Object.assign(job, { delivery: undefined, duplicates: [] });
}
