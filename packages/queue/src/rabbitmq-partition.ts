import { ack, type Channel, type ConsumeMessage, consume, type KeptChannel } from '@wellspring/amqp/channel';
import type { Amqp } from '@wellspring/amqp/client';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import type { Store } from '@wellspring/store/port';
import type { Entry } from './lanes.ts';
import { attempts, type InboxRow, inbox, purges } from './rabbitmq-rows.ts';

/** A job of a partition that this process has. */
export interface Arrived extends Entry {
  /** Of the message. */
  id: string;
  /** Where it is confirmed; undefined: it is in the inbox, or its channel is gone and it will come again. */
  delivery: { channel: Channel; message: ConsumeMessage } | undefined;
  /** It is a row of the inbox, and no message any more. */
  stored: boolean;
  /** It was handed out. */
  out: boolean;
  /** performance.now() of its arrival. */
  arrivedAt: number;
}

/** What a message of a partition says in its headers. */
export interface JobHeaders {
  key: string;
  /** Epoch ms of the publication. */
  at: number;
  /** Instead of a job: what is before it of this key, and of its lanes, is dropped. */
  purge?: true;
}

export interface Partition {
  /** Jobs that are here, by id, in the order of their arrival. */
  readonly jobs: Map<string, Arrived>;
  /** They are done, or dead: confirms their messages and removes their rows. */
  done(jobs: readonly Arrived[]): void;
  /** Puts jobs of slow keys into the inbox, so that they hold up nobody and the broker need not wait for them. */
  spill(): Promise<void>;
  /** Resolves when nothing of it is out any more and everything is confirmed; what waited is there for the next holder. */
  release(): Promise<void>;
}

export interface PartitionEvents {
  /** A job takes its place behind all others of its key. */
  admit(job: Arrived): void;
  /** Waiting jobs that are chosen lose their place; `key` undefined: of all keys. */
  drop(key: string | undefined, chosen: (job: Arrived) => boolean): Arrived[];
}

export interface PartitionOptions {
  amqp: Amqp;
  store: Store;
  clock: Clock;
  log: Log;
  /** Of the broker. */
  queue: string;
  /** In rows, such as `runs.7`. */
  name: string;
}

/** Messages at a time that are not confirmed; fewer cost throughput, more memory. */
const PREFETCH = 512;
/** With half of those taken, jobs that wait for longer go to the inbox. */
const SLOW_MS = 500;
/** Jobs that are not done after this time go there in any case: the broker gives a consumer half an hour. */
const VERY_SLOW_MS = 60_000;
const PAGE = 500;
const FIRST_REST_MS = 100;
const LONGEST_REST_MS = 2_000;
/** Ids of jobs that were done when their channel was gone: they will come again. */
const FINISHED = 20_000;

/** Whether a key is this one, or one of its lanes. */
const isOf = (key: string, base: string) => key === base || key.startsWith(`${base}#`);

export function openPartition(
  { amqp, store, clock, log, queue, name }: PartitionOptions,
  { admit, drop }: PartitionEvents,
): Partition {
  const inboxRows = store.collection(inbox);
  const attemptRows = store.collection(attempts);
  const purgeRows = store.collection(purges);
  const jobs = new Map<string, Arrived>();
  const finished = new Set<string>();
  /** Purges that were under way when this process got the partition, by id of their message. */
  const purging = new Map<string, string>();
  const closing = new AbortController();
  let channel: Channel | undefined;
  let kept: KeptChannel | undefined;
  let nextSeq = 0;
  let spilling = false;
  let idle: (() => void) | undefined;
  /** Messages whose failures are being looked up come before those behind them. */
  let line: Promise<void> | undefined;

  /** Writes that a release waits for. */
  const writing = new Set<Promise<unknown>>();
  function write(what: string, work: () => Promise<unknown>): void {
    const written = persist(what, work).finally(() => writing.delete(written));
    writing.add(written);
  }

  /** Until it succeeds, or the partition is released. */
  async function persist(what: string, work: () => Promise<unknown>): Promise<boolean> {
    for (let rest = FIRST_REST_MS; !closing.signal.aborted; rest = Math.min(LONGEST_REST_MS, 2 * rest)) {
      try {
        await work();
        return true;
      } catch (error) {
        log.warn({ partition: name, what, error: String(error) }, 'queue.store_failed');
      }
      await clock.sleep(rest, closing.signal);
    }
    return false;
  }

  async function load(): Promise<void> {
    purging.clear();
    for (const { id, key } of await purgeRows.list({ where: { partition: name }, limit: 1_000 }))
      purging.set(id, key);
    for (let after = -1; ; ) {
      const rows = await inboxRows.list({
        where: { partition: name, seq: { gt: after } },
        orderBy: 'seq',
        order: 'asc',
        limit: PAGE,
      });
      for (const row of rows) {
        if (closing.signal.aborted) return;
        if (!jobs.has(row.id)) await restore(row);
      }
      const last = rows.at(-1);
      if (!last) return;
      after = last.seq;
      nextSeq = last.seq + 1;
    }
  }

  async function restore(row: InboxRow): Promise<void> {
    const { id, key, payload, published_at } = row;
    if ([...purging.values()].some((base) => isOf(key, base))) {
      await inboxRows.remove(id);
      return;
    }
    const failures = (await attemptRows.get(id))?.attempts ?? 0;
    enter({ id, key, payload, published_at, failures, stored: true, delivery: undefined });
  }

  function enter(given: {
    id: string;
    key: string;
    payload: string;
    published_at: number;
    failures: number;
    stored: boolean;
    delivery: Arrived['delivery'];
  }): void {
    const { id, key, payload, published_at, failures, stored, delivery } = given;
    const job: Arrived = {
      id,
      seq: 0,
      key,
      attempts: failures,
      publishedAt: published_at,
      payload,
      stored,
      delivery,
      out: false,
      arrivedAt: performance.now(),
    };
    jobs.set(id, job);
    admit(job);
  }

  function onMessage(from: Channel, message: ConsumeMessage): void {
    if (!message.fields.redelivered && !line) {
      arrive(from, message, 0);
      return;
    }
    const before = line ?? Promise.resolve();
    const mine: Promise<void> = before.then(async () => {
      let failures = 0;
      if (message.fields.redelivered && !jobs.has(message.properties.messageId)) {
        await persist('failures of a job', async () => {
          failures = (await attemptRows.get(message.properties.messageId))?.attempts ?? 0;
        });
      }
      if (line === mine) line = undefined;
      arrive(from, message, failures);
    });
    line = mine;
  }

  function arrive(from: Channel, message: ConsumeMessage, failures: number): void {
    // It will come again, on another channel, to this process or to another.
    if (from !== channel || closing.signal.aborted) return;
    const { messageId: id, headers } = message.properties;
    const { key, at, purge } = headers as unknown as JobHeaders;
    if (purge) {
      purged(from, message, key, id);
      return;
    }
    const known = jobs.get(id);
    const isGone = finished.delete(id) || [...purging.values()].some((base) => isOf(key, base));
    if (isGone || known?.stored) {
      ack(from, message);
      return;
    }
    if (known) {
      known.delivery = { channel: from, message };
      return;
    }
    const delivery = { channel: from, message };
    enter({
      id,
      key,
      payload: message.content.toString(),
      published_at: at,
      failures,
      stored: false,
      delivery,
    });
  }

  function purged(from: Channel, message: ConsumeMessage, key: string, id: string): void {
    forget(drop(key, (job) => isOf(job.key, key) && !job.out));
    purging.delete(id);
    ack(from, message);
    write('a purge', () => purgeRows.remove(id));
  }

  /** Confirms messages and removes rows. */
  function forget(gone: readonly Arrived[]): void {
    const rows: string[] = [];
    const failed: string[] = [];
    for (const job of gone) {
      jobs.delete(job.id);
      if (job.attempts > 0) failed.push(job.id);
      if (job.delivery) {
        ack(job.delivery.channel, job.delivery.message);
        continue;
      }
      if (job.stored) rows.push(job.id);
      // Its message may come by again.
      finished.add(job.id);
      if (finished.size > FINISHED) finished.delete(finished.values().next().value!);
    }
    if (rows.length > 0) write('jobs that are done', () => inboxRows.removeWhere({ id: { in: rows } }));
    if (failed.length > 0) write('failures', () => attemptRows.removeWhere({ id: { in: failed } }));
    if (idle && ![...jobs.values()].some(({ out }) => out)) idle();
  }

  const taking = persist('the inbox', load).then((loaded) => {
    if (!loaded) return;
    kept = amqp.openChannel({
      name: queue,
      async setup(made) {
        await made.prefetch(PREFETCH);
        channel = made;
        await consume(made, queue, (message) => onMessage(made, message));
      },
      lost() {
        channel = undefined;
        // They come again, in the same order; what is out goes on.
        const waiting = (job: Arrived) => !job.stored && !job.out;
        for (const job of drop(undefined, (one) => jobs.get(one.id) === one && waiting(one)))
          jobs.delete(job.id);
        for (const job of jobs.values()) job.delivery = undefined;
      },
    });
  });

  /** Jobs of the keys whose oldest is older than this, in order. */
  function slowerThan(ms: number): Arrived[] {
    const since = performance.now() - ms;
    const keys = new Set<string>();
    for (const job of jobs.values()) if (!job.stored && job.arrivedAt < since) keys.add(job.key);
    return keys.size === 0
      ? []
      : [...jobs.values()].filter((job) => !job.stored && job.delivery && keys.has(job.key));
  }

  return {
    jobs,
    done: forget,
    async spill() {
      if (spilling || !channel) return;
      let held = 0;
      for (const { delivery } of jobs.values()) if (delivery) held += 1;
      const chosen = slowerThan(held >= PREFETCH / 2 ? SLOW_MS : VERY_SLOW_MS);
      if (chosen.length === 0) return;
      spilling = true;
      const rows = chosen.map(
        ({ id, key, payload, publishedAt }): InboxRow => ({
          id,
          partition: name,
          seq: nextSeq++,
          key,
          payload: payload ?? '',
          published_at: publishedAt,
        }),
      );
      try {
        await inboxRows.insertMany(rows);
        const late: string[] = [];
        for (const job of chosen) {
          // Done meanwhile, or gone with its channel and on its way again.
          if (jobs.get(job.id) !== job) late.push(job.id);
          else {
            job.stored = true;
            if (job.delivery) ack(job.delivery.channel, job.delivery.message);
            job.delivery = undefined;
          }
        }
        if (late.length > 0)
          await persist('jobs that are done', () => inboxRows.removeWhere({ id: { in: late } }));
      } catch (error) {
        log.warn({ partition: name, error: String(error) }, 'queue.spill_failed');
      } finally {
        spilling = false;
      }
    },
    async release() {
      const out = () => [...jobs.values()].some((job) => job.out);
      for (const job of drop(undefined, (one) => jobs.get(one.id) === one && !one.out)) jobs.delete(job.id);
      if (out()) {
        await new Promise<void>((resolve) => {
          idle = resolve;
        });
      }
      await Promise.all(writing);
      closing.abort();
      await taking;
      await kept?.close();
      jobs.clear();
    },
  };
}
