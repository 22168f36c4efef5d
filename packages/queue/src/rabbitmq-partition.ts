import {
  ack,
  type Channel,
  type ConsumeMessage,
  consume,
  type RecoveringChannel,
} from '@wellspring/amqp/channel';
import type { Amqp } from '@wellspring/amqp/client';
import { type Backoff, backoff } from '@wellspring/core/backoff';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { parseOrderingKey } from '@wellspring/core/ordering-key';
import type { Store } from '@wellspring/store/port';
import { type Arrived, PREFETCH, slowOf } from './rabbitmq-arrived.ts';
import { createInbox, failuresOf } from './rabbitmq-inbox.ts';
import { fromMessage, type JobMessage } from './rabbitmq-message.ts';
import { attempts, purges } from './rabbitmq-rows.ts';

export interface Partition {
  /** Jobs in memory by id, in the order of their arrival. */
  readonly jobs: ReadonlyMap<string, Arrived>;
  /** Nothing of it is begun any more. */
  readonly isLeaving: boolean;
  /** Of their payloads. */
  readonly bytes: number;
  /** They are done, or dead: confirms their messages and removes their rows. */
  done(jobs: readonly Arrived[]): void;
  /** They wait no more, and come again by themselves. */
  forget(jobs: readonly Arrived[]): void;
  /** Puts jobs of slow keys into the inbox, so that they hold up nobody and the broker need not wait for them. */
  spill(): void;
  /** Looks for jobs that a process which had the partition before put into the inbox late. */
  find(): Promise<void>;
  /** Resolves when nothing of it is out any more and everything is confirmed; what waited is there for the next holder. */
  release(): Promise<void>;
}

export interface PartitionEvents {
  /** A job takes its place behind all others of its key. */
  admit(job: Arrived): void;
  /** Waiting jobs that are chosen lose their place; `key` undefined: of all keys, else of it and of its lanes. */
  drop(key: string | undefined, chosen: (job: Arrived) => boolean): Arrived[];
  /** Memory is short. */
  isTight(): boolean;
  /** performance.now() since when the key waits for its admission; undefined: it does not. */
  admissionOf(key: string): number | undefined;
}

export interface PartitionOptions {
  amqp: Amqp;
  store: Store;
  clock: Clock;
  log: Log;
  /** Of the broker. */
  queue: string;
  /** Declares that queue. */
  declare(channel: Channel): Promise<void>;
  /** In rows, such as `runs.7`. */
  name: string;
}

/** Jobs of a slow key in memory. */
const HERE = 256;
const HERE_TIGHT = 16;
const STORE_BACKOFF: Backoff = { baseMs: 100, maxMs: 2_000 };
/** Ids of jobs whose messages may come again, since the broker did not get all that was sent. */
const FINISHED = 16 * PREFETCH;

const belongsTo = (key: string, sourceId: string) => parseOrderingKey(key).sourceId === sourceId;

export function openPartition(
  { amqp, store, clock, log, queue, declare, name }: PartitionOptions,
  { admit, drop, isTight, admissionOf }: PartitionEvents,
): Partition {
  const attemptRows = store.collection(attempts);
  const purgeRows = store.collection(purges);
  const jobs = new Map<string, Arrived>();
  const counts = new Map<string, number>();
  let bytes = 0;
  const finished = new Set<string>();
  /** Ids of jobs that came for the first time, and went with their channel before anybody had them. */
  let untouched = new Set<string>();
  /** Purges that were under way when this process got the partition, by id of their message. */
  const purging = new Map<string, string>();
  const closing = new AbortController();
  let channel: Channel | undefined;
  let kept: RecoveringChannel | undefined;
  let idle: (() => void) | undefined;
  /** Messages that came again wait for their failures to be looked up, and those behind them wait, too. */
  let redelivered: { from: Channel; message: ConsumeMessage }[] = [];
  let looking = false;
  let isLeaving = false;

  /** Writes that a release waits for. */
  const writing = new Set<Promise<unknown>>();
  function write(what: string, work: () => Promise<unknown>): void {
    const written = persist(what, work).finally(() => writing.delete(written));
    writing.add(written);
  }

  async function persist<T>(what: string, work: () => Promise<T>): Promise<T | undefined> {
    for (let failures = 1; !closing.signal.aborted; failures++) {
      try {
        return await work();
      } catch (error) {
        log.warn({ partition: name, what, error: String(error) }, 'queue.store_failed');
      }
      await clock.sleep(backoff(failures, STORE_BACKOFF), closing.signal);
    }
    return undefined;
  }

  const inbox = createInbox(
    { store, name, persist, room: () => (isTight() ? HERE_TIGHT : HERE) },
    {
      here: (key) => counts.get(key) ?? 0,
      isKnown: (id) => jobs.has(id) || finished.has(id),
      loaded({ published_at: at, ...row }, failures) {
        if (!isLeaving) enter({ ...row, at }, failures, undefined);
      },
    },
  );

  function enter(
    { id, key, payload, at, redelivered }: Omit<JobMessage, 'purge'>,
    failures: number,
    delivery: Arrived['delivery'],
  ): void {
    const job: Arrived = {
      id,
      seq: 0,
      key,
      attempts: failures,
      publishedAt: at,
      payload,
      redelivered,
      stored: !delivery,
      delivery,
      copies: [],
      out: false,
      outAt: 0,
      isDone: false,
      arrivedAt: performance.now(),
    };
    jobs.set(id, job);
    counts.set(key, (counts.get(key) ?? 0) + 1);
    bytes += payload.length;
    admit(job);
  }

  function leave({ id, key, payload }: Arrived): void {
    if (!jobs.delete(id)) return;
    bytes -= payload.length;
    const left = counts.get(key)! - 1;
    if (left > 0) counts.set(key, left);
    else counts.delete(key);
  }

  function confirm(job: Arrived): void {
    for (const { channel: from, message } of job.copies) ack(from, message);
    if (job.delivery) ack(job.delivery.channel, job.delivery.message);
    Object.assign(job, { delivery: undefined, copies: [] });
  }

  function finish(id: string): void {
    finished.add(id);
    if (finished.size > FINISHED) finished.delete(finished.values().next().value!);
  }

  const isPurging = (key: string) => [...purging.values()].some((base) => belongsTo(key, base));

  function onMessage(from: Channel, message: ConsumeMessage): void {
    if (!message.fields.redelivered && redelivered.length === 0 && !looking) {
      arrive(from, message, new Map());
      return;
    }
    redelivered.push({ from, message });
    if (!looking) void lookUp();
  }

  async function lookUp(): Promise<void> {
    looking = true;
    while (redelivered.length > 0 && !closing.signal.aborted) {
      // What comes in one turn is looked up at once.
      await new Promise(setImmediate);
      const batch = redelivered;
      redelivered = [];
      const unknown = batch.filter(
        ({ message: { fields, properties } }) => fields.redelivered && !jobs.has(properties.messageId),
      );
      const ids = unknown.map(({ message }) => ({ id: String(message.properties.messageId) }));
      const failures = await persist('failures of jobs', () => failuresOf(attemptRows, ids));
      if (failures) for (const { from, message } of batch) arrive(from, message, failures);
    }
    looking = false;
  }

  function arrive(from: Channel, message: ConsumeMessage, failures: Map<string, number>): void {
    // It will come again, on another channel, to this process or to another.
    if (from !== channel || isLeaving) return;
    let job: JobMessage;
    try {
      job = fromMessage(message);
    } catch (error) {
      log.error({ partition: name, error: String(error) }, 'queue.foreign_message');
      ack(from, message);
      return;
    }
    const { id, key } = job;
    if (untouched.delete(id)) job.redelivered = undefined;
    if (job.purge) {
      purged(key, id);
      ack(from, message);
      return;
    }
    const known = jobs.get(id);
    if (known?.stored || (!known && finished.has(id)) || isPurging(key)) {
      ack(from, message);
    } else if (known) {
      // On the same channel, it may be a copy, or the same message handed out again: then the former one is void.
      if (known.delivery?.channel === from) known.copies.push(known.delivery);
      known.delivery = { channel: from, message };
    } else if (inbox.isBehind(key)) {
      const slow = { id, key, payload: job.payload, publishedAt: job.at, redelivered: job.redelivered };
      void inbox.append([slow]).then((places) => {
        if (places) ack(from, message);
        inbox.refill(key);
      });
    } else {
      enter(job, failures.get(id) ?? 0, { channel: from, message });
    }
  }

  function purged(base: string, id: string): void {
    done(drop(base, (job) => belongsTo(job.key, base) && !job.out));
    inbox.purge((key) => belongsTo(key, base));
    purging.delete(id);
    write('a purge', () => purgeRows.remove(id));
  }

  function done(gone: readonly Arrived[]): void {
    const rows: string[] = [];
    const failed: string[] = [];
    for (const job of gone) {
      leave(job);
      job.isDone = true;
      finish(job.id);
      if (job.attempts > 0) failed.push(job.id);
      if (!job.delivery && job.stored) rows.push(job.id);
      confirm(job);
    }
    if (rows.length > 0) write('jobs that are done', () => inbox.remove(rows));
    if (failed.length > 0) write('failures', () => attemptRows.removeWhere({ id: { in: failed } }));
    for (const key of new Set(gone.map((job) => job.key))) inbox.refill(key);
    if (idle && ![...jobs.values()].some(({ out }) => out)) idle();
  }

  async function start(): Promise<true> {
    purging.clear();
    const underWay = await purgeRows.list({ where: { partition: name }, limit: 1_000 });
    for (const { id, key } of underWay) purging.set(id, key);
    await inbox.find();
    inbox.purge(isPurging);
    return true;
  }

  const taking = persist('the inbox', start).then((started) => {
    if (!started) return;
    kept = amqp.openChannel({
      name: queue,
      reopenOnNodeChange: true,
      async setup(made) {
        await declare(made);
        await made.prefetch(PREFETCH);
        channel = made;
        await consume(made, queue, (message) => onMessage(made, message));
      },
      lost() {
        channel = undefined;
        redelivered = [];
        // They come again, in the same order; what is out goes on.
        const isLost = (job: Arrived) => jobs.get(job.id) === job && !job.stored && !job.out;
        const dropped = drop(undefined, isLost);
        for (const job of dropped) leave(job);
        untouched = new Set(dropped.filter((job) => !job.redelivered).map((job) => job.id));
        for (const job of jobs.values()) Object.assign(job, { delivery: undefined, copies: [] });
      },
    });
  });

  async function toInbox(key: string, chosen: readonly Arrived[]): Promise<void> {
    const places = await inbox.append(chosen);
    if (!places) return;
    const late: string[] = [];
    let [kept, last] = [0, 0];
    const tail = new Set<Arrived>();
    const most = isTight() ? HERE_TIGHT : HERE;
    for (const [i, job] of chosen.entries()) {
      if (job.isDone) late.push(job.id);
      // Gone with its channel: it is in the inbox, and the message that comes again is one too many.
      if (jobs.get(job.id) !== job) continue;
      job.stored = true;
      confirm(job);
      if (job.out || (tail.size === 0 && kept < most)) {
        kept += 1;
        last = places[i]!;
      } else tail.add(job);
    }
    inbox.hasUpTo(key, last, late.length === 0);
    for (const job of drop(key, (one) => tail.has(one))) leave(job);
    if (late.length > 0) write('jobs that are done', () => inbox.remove(late));
    inbox.refill(key);
  }

  return {
    jobs,
    get isLeaving() {
      return isLeaving;
    },
    get bytes() {
      return bytes;
    },
    done,
    forget(gone) {
      for (const job of gone) leave(job);
    },
    spill() {
      if (!channel || isLeaving) return;
      for (const [key, chosen] of slowOf(jobs.values(), { isTight: isTight(), admissionOf })) {
        if (!inbox.isBehind(key)) void toInbox(key, chosen);
      }
    },
    async find() {
      await taking;
      if (!isLeaving) await inbox.find();
    },
    async release() {
      isLeaving = true;
      const isOut = () => [...jobs.values()].some((job) => job.out);
      for (const job of drop(undefined, (one) => jobs.get(one.id) === one && !one.out)) leave(job);
      if (isOut()) {
        await new Promise<void>((resolve) => {
          idle = resolve;
        });
      }
      await Promise.all([...writing, inbox.settled()]);
      closing.abort();
      await taking;
      await kept?.close();
      jobs.clear();
    },
  };
}
