import { setImmediate as turn } from 'node:timers/promises';
import type { Channel, RecoveringChannel } from '@wellspring/amqp/channel';
import { openAmqp } from '@wellspring/amqp/client';
import { createByteBudget } from '@wellspring/core/byte-budget';
import { newSecret } from '@wellspring/core/ids';
import { silentLog } from '@wellspring/core/log';
import { withTimeout } from '@wellspring/core/with-timeout';
import { openDatabase } from '@wellspring/sqlite/database';
import { createEmbeddedStore } from '@wellspring/store/embedded';
import type { ListOptions, Store } from '@wellspring/store/port';
import { eventually } from '@wellspring/testing/eventually';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import type { ConsumeOptions, Handler } from '../port.ts';
import { type OverflowRow, overflow } from './collections.ts';
import type { LeaseHandlers, Leases } from './leases.ts';
import { toMessage } from './message.ts';
import { createPartitions } from './partitions.ts';

/** A statement of the partition. */
export interface Statement {
  collection: string;
  method: string;
  /** Of `list`. */
  options: ListOptions<OverflowRow>;
}

/** Reads a page of the rows of a key. */
export const isPage = ({ collection, method, options }: Statement) =>
  collection === overflow.name && method === 'list' && typeof options.where?.key === 'string';
/** Reads the payloads of rows. */
export const isPayloads = ({ collection, method, options }: Statement) =>
  collection === overflow.name && method === 'list' && options.where?.id !== undefined;
export const isAppend = ({ collection, method }: Statement) =>
  collection === overflow.name && method === 'insertMany';

export const ids = (count: number, prefix: string) =>
  Array.from({ length: count }, (_, n) => `${prefix}${n}`);

/** Admission to the handler, closed at first. */
export function createGate() {
  const opened = Promise.withResolvers<void>();
  const asked = new Set<string>();
  return {
    asked,
    open: opened.resolve,
    async admit(owner: string) {
      asked.add(owner);
      await opened.promise;
      return { owner, release() {} };
    },
  };
}

/** Bytes of each payload. */
const BYTES = 100;

/** One partition `runs.0` on a real broker and store. The test says when time passes and when the store answers. */
export async function openSubject(url: string, jobsInMemory: number) {
  const clock = createFakeClock();
  const db = openDatabase(':memory:');
  const real = createEmbeddedStore(db);
  const amqp = await openAmqp({ url, log: silentLog });
  const queue = `t${newSecret()}`;
  const closing = new AbortController();
  let answer = (_: Statement, run: () => Promise<unknown>) => run();
  const store: Store = {
    ...real,
    collection(definition) {
      const rows = real.collection(definition);
      return new Proxy(rows, {
        get:
          (target, method: keyof typeof rows) =>
          (...args: unknown[]) =>
            answer({ collection: definition.name, method, options: args[0] as Statement['options'] }, () =>
              (target[method] as (...all: unknown[]) => Promise<unknown>)(...args),
            ),
      });
    },
  };
  let handlers: LeaseHandlers;
  let mayStart = true;
  const leaving = Promise.withResolvers<void>();
  const leases: Leases = {
    get mayStart() {
      return mayStart;
    },
    held: () => 1,
    holds: () => mayStart,
    async join(_, given, signal) {
      handlers = given;
      handlers.take(0, 1);
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      leaving.resolve();
      await handlers.release(0, signal);
    },
    forfeit() {},
    holderOf: async () => undefined,
  };
  let consumer: RecoveringChannel;
  let reopening = Promise.resolve();
  const declare = async (channel: Channel) =>
    void (await channel.assertQueue(queue, { durable: true, arguments: { 'x-queue-type': 'quorum' } }));
  const topology = amqp.openChannel({ name: 'topology', setup: declare });
  await eventually(() => topology.current !== undefined);
  const partitions = createPartitions({
    amqp: {
      ...amqp,
      openChannel(events) {
        const setup = async (channel: Channel) => {
          await reopening;
          await events.setup(channel);
        };
        consumer = amqp.openChannel({ ...events, setup });
        return consumer;
      },
    },
    ...{ queue: 'runs', store, clock, log: silentLog, leases, closing: closing.signal },
    budget: createByteBudget(1024 ** 2),
    // Two of a key are slow from half of it on.
    maxBytes: () => jobsInMemory * BYTES,
    partitionOf: () => 0,
    brokerQueueOf: () => ({ name: 'runs.0', queue, declare }),
    async addDeadLetter() {},
  });
  const publisher = amqp.openPublisher(queue);
  const publish = (key: string, id: string) =>
    publisher.publish(toMessage(queue, { id, key, at: 1, payload: id.padEnd(BYTES, '.') }));
  const stop = new AbortController();
  let ended: Promise<void> | undefined;

  return {
    clock,
    partitions,
    store,
    rows: real.collection(overflow),
    /** Calls `instead` with each statement; it may run the statement before or after something else. */
    intercept(instead: typeof answer) {
      answer = instead;
    },
    /** Holds the next such statement. */
    hold(isHeld: (statement: Statement) => boolean) {
      const [reached, released, done] = [0, 1, 2].map(() => Promise.withResolvers<void>());
      answer = async (statement, run) => {
        if (!isHeld(statement)) return run();
        answer = (_, others) => others();
        reached!.resolve();
        await released!.promise;
        return run().finally(done!.resolve);
      };
      return {
        reached: reached!.promise,
        /** Resolves when the partition has had time to use the answer. */
        async release() {
          released!.resolve();
          await done!.promise;
          for (let n = 0; n < 10; n += 1) await turn();
        },
      };
    },
    setCertain(isCertain: boolean) {
      mayStart = isCertain;
    },
    /** @param options with a default batch of 1 */
    consume(handler: Handler, options: Omit<ConsumeOptions, 'signal'> = {}) {
      ended = partitions.consume(handler, { ...options, signal: stop.signal });
    },
    publish,
    /** Publishes jobs, and waits until they are in memory: none of them may end before. */
    async receive(key: string, ids: readonly string[]) {
      const before = partitions.messages;
      await Promise.all(ids.map((id) => publish(key, id)));
      await eventually(() => partitions.messages >= before + ids.length);
    },
    /** Rows of a former owner. */
    async insert(key: string, ids: readonly string[]) {
      const added = ids.map((id, seq) => ({ id, partition: 'runs.0', key, seq: seq + 1, payload: id }));
      await real
        .collection(overflow)
        .insertMany(added.map((row) => ({ ...row, bytes: BYTES, published_at: 1 })));
    },
    /** Ends the channel. @param until the broker does not answer the next one before */
    async loseChannel(until: Promise<void> = Promise.resolve()) {
      reopening = until;
      const lost = consumer.current;
      consumer.reopen();
      await eventually(() => consumer.current !== lost);
    },
    /** The lease is lost, and this process takes the partition again. */
    retake() {
      handlers.lost(0);
      handlers.take(0, 2);
    },
    release: (urgent = AbortSignal.abort()) => handlers.release(0, urgent),
    /** Ends the consumer. */
    stop: () => stop.abort(),
    /** Resolves when all partitions are to be released. */
    leaving: leaving.promise,
    async close() {
      stop.abort();
      // A failed test holds its jobs.
      await withTimeout(Promise.resolve(ended), 1_000);
      closing.abort();
      await topology.current?.deleteQueue(queue);
      await amqp.close();
      await db.close();
    },
  };
}
