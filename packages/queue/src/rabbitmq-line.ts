import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { parseOrderingKey } from '@wellspring/core/ordering-key';
import type { Ownership } from '@wellspring/redis/ownership';
import type { Collection } from '@wellspring/store/port';
import { createDispatcher } from './dispatcher.ts';
import { backoffOf, classifyFailure } from './failure.ts';
import { createLanes, type Lane } from './lanes.ts';
import type { ConsumeOptions, Handler, Job, QueueName } from './port.ts';
import type { Arrived } from './rabbitmq-arrived.ts';
import type { Burial } from './rabbitmq-dead-letters.ts';
import type { Partition, PartitionEvents } from './rabbitmq-partition.ts';
import type { AttemptsRow } from './rabbitmq-rows.ts';

export interface LineOptions {
  queue: QueueName;
  clock: Clock;
  log: Log;
  ownership: Ownership;
  attemptRows: Collection<AttemptsRow>;
  partitionOf(key: string): number;
  open(partition: number, events: PartitionEvents): Partition;
  bury(dead: Burial): Promise<void>;
  closing: AbortSignal;
}

/** What one process does for one queue: hands out the jobs of the partitions that it has. */
export interface Line {
  /** Partitions that this process has. */
  readonly held: ReadonlyMap<number, Partition>;
  readonly isConsumed: boolean;
  consume(handler: Handler, options: ConsumeOptions): Promise<void>;
  /** Has to be called now and then: moves jobs of slow keys out of the way. */
  look(): void;
}

/** From the taking of a partition to the first job, so that no key of it has a head start. */
const SETTLE_MS = 20;
/** A partition is let go of while no job takes longer. */
const LONG_MS = 1_000;
const LOOK_AGAIN_MS = 100;
/** Of payloads in memory; beyond, what waits goes to the inbox. */
const BYTES = 128 * 1024 * 1024;

const toJob = ({ id, key, payload, attempts: failures, publishedAt, redelivered }: Arrived): Job => ({
  id,
  key,
  payload,
  attempt: failures + 1,
  published_at: publishedAt,
  ...(redelivered && { redelivered }),
});

export function createLine(options: LineOptions): Line {
  const { queue, clock, log, ownership, attemptRows, partitionOf, open, bury, closing } = options;
  const lanes = createLanes<Arrived>();
  const held = new Map<number, Partition>();
  const dispatcher = createDispatcher({ lanes, handle: handOut, clock, log, closing });
  let sharing: { stop: AbortController; ended: Promise<void> } | undefined;
  /** performance.now() from which jobs are handed out: those of partitions taken together come together. */
  let settledAt = 0;
  let planned = false;
  let isTight = false;

  /** At the end of the turn: what arrives together goes out together. */
  function plan(): void {
    if (planned) return;
    planned = true;
    const settling = settledAt - performance.now();
    const run = () => {
      planned = false;
      if (performance.now() < settledAt) plan();
      else dispatcher.dispatch();
    };
    if (settling > 0) setTimeout(run, settling);
    else setImmediate(run);
  }

  async function handOut(handler: Handler, lane: Lane<Arrived>, jobs: Arrived[]): Promise<number> {
    const outAt = performance.now();
    for (const job of jobs) Object.assign(job, { out: true, outAt });
    const [first, ...others] = jobs as [Arrived, ...Arrived[]];
    // The partition that it came from: what has it later is not concerned.
    const partition = held.get(partitionOf(first.key));
    try {
      await handler([toJob(first), ...others.map(toJob)]);
      for (const job of jobs) job.out = false;
      lanes.settle(jobs.length);
      partition?.done(jobs);
      return 0;
    } catch (error) {
      return failed(partition, lane, jobs, error);
    }
  }

  /** Gives the jobs back, except one that is dead now. Gives the ms for which the lane rests. */
  async function failed(
    partition: Partition | undefined,
    lane: Lane<Arrived>,
    jobs: Arrived[],
    error: unknown,
  ): Promise<number> {
    const reason = String(error);
    const [first] = jobs as [Arrived, ...Arrived[]];
    let { dead, counts } = classifyFailure(error, jobs, ({ id }) => id);
    const fields = { queue, key: first.key, job: (dead ?? first).id, reason };
    try {
      if (dead) {
        const { id, key, payload, attempts: failures } = dead;
        await bury({ job: id, queue, key, payload, reason, attempts: failures + 1 });
        log.error(fields, 'queue.job_dead');
      } else {
        log.warn({ ...fields, attempt: first.attempts + 1 }, 'queue.job_failed');
        if (counts) {
          await attemptRows.increment(first.id, { attempts: 1 }, { id: first.id, attempts: 1 });
          first.attempts += 1;
        }
      }
    } catch (writeError) {
      // The store does not answer, which is no fault of the jobs: they stay what they are, and their lane waits.
      dead = undefined;
      counts = false;
      log.error({ queue, error: String(writeError) }, 'queue.write_failed');
    }
    if (!counts) first.uncounted = (first.uncounted ?? 0) + 1;
    const left = jobs.filter((job) => job !== dead);
    for (const job of jobs) job.out = false;
    // Those whose channel is gone come again by themselves, and those of a partition that is let go of elsewhere.
    const stays = (job: Arrived) =>
      partition?.jobs.get(job.id) === job && !partition.isLeaving && (job.stored || job.delivery);
    const back = left.filter(stays);
    // A part of what they lead to may have been done.
    for (const job of back) job.redelivered = true;
    partition?.forget(left.filter((job) => partition.jobs.get(job.id) === job && !back.includes(job)));
    lanes.settle(jobs.length - back.length);
    lanes.giveBack(lane, back);
    partition?.done(dead ? [dead] : []);
    if (dead) return 0;
    return backoffOf(first, counts);
  }

  function take(partition: number): void {
    settledAt = performance.now() + SETTLE_MS;
    const one = open(partition, {
      admit(job) {
        lanes.add(job);
        plan();
      },
      drop(key, chosen) {
        const names = [...lanes.names()].filter(
          (name) => key === undefined || parseOrderingKey(name).sourceId === key,
        );
        return names.flatMap((name) => lanes.purge(name, chosen));
      },
      isTight: () => isTight,
      admissionOf: (key) => lanes.get(key)?.admission,
    });
    held.set(partition, one);
  }

  async function release(partition: number, urgent: AbortSignal): Promise<void> {
    const one = held.get(partition);
    // A job that takes long is no reason for all other keys of the partition to wait until it is over.
    const since = () => performance.now() - LONG_MS;
    const isLong = (job: Arrived) => job.out && job.outAt < since();
    while (!urgent.aborted && [...(one?.jobs.values() ?? [])].some(isLong)) {
      await clock.sleep(LOOK_AGAIN_MS, urgent);
    }
    await one?.release();
    if (held.get(partition) === one) held.delete(partition);
  }

  return {
    held,
    get isConsumed() {
      return dispatcher.size > 0;
    },
    look() {
      let bytes = 0;
      for (const partition of held.values()) bytes += partition.bytes;
      isTight = bytes > BYTES;
      for (const partition of held.values()) partition.spill();
    },
    async consume(handler, consumeOptions) {
      const { signal } = consumeOptions;
      if (signal.aborted) return;
      // The partitions of the consumers before are let go of first.
      while (sharing?.stop.signal.aborted) await sharing.ended;
      if (signal.aborted) return;
      if (!sharing) {
        const stop = new AbortController();
        const ended = ownership.run({ take, release }, stop.signal).finally(() => {
          sharing = undefined;
        });
        sharing = { stop, ended };
      }
      const current = sharing;
      const gone = dispatcher.consume(handler, consumeOptions);
      plan();
      await gone;
      // With the last consumer the partitions go.
      if (dispatcher.size === 0) current.stop.abort();
      if (current.stop.signal.aborted) await current.ended;
    },
  };
}
