import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { openAmqp } from '@wellspring/amqp/client';
import { newSecret } from '@wellspring/core/ids';
import { silentLog } from '@wellspring/core/log';
import { partitionOf, shareOf } from '@wellspring/core/partitions';
import { type Database, openDatabase } from '@wellspring/sqlite/database';
import { createEmbeddedStore } from '@wellspring/store/embedded';
import { eventually } from '@wellspring/testing/eventually';
import { startRabbit } from '@wellspring/testing/servers/rabbitmq';
import { startRedis } from '@wellspring/testing/servers/redis';
import type { TestServer } from '@wellspring/testing/servers/server';
import { withPrograms } from '@wellspring/testing/servers/servers';
import fc from 'fast-check';
import type { Job, Queue } from '../port.ts';
import { attempts, overflow } from './collections.ts';
import { type Installation, type RabbitProcess, startProcess } from './process.fixture.ts';

const SEED = Number(process.env.QUEUE_SEED ?? 20261121);

/** Records how the jobs of an installation are handled, over all processes. */
interface Ledger {
  /** By key, in order of first handling. */
  first: Map<string, number[]>;
  handled: number;
  /** Keys handled in two processes at the same time. */
  overlaps: string[];
  handler(process: { isDead: boolean }, ms?: number): (jobs: readonly Job[]) => Promise<void>;
  count(): number;
}

function createLedger(): Ledger {
  const busy = new Map<string, { isDead: boolean }>();
  const seen = new Set<string>();
  const ledger: Ledger = {
    first: new Map(),
    handled: 0,
    overlaps: [],
    handler:
      (process, ms = 0) =>
      async (jobs) => {
        const { key } = jobs[0]!;
        const other = busy.get(key);
        if (other && !other.isDead) ledger.overlaps.push(key);
        busy.set(key, process);
        if (ms > 0) await pause(ms);
        // A killed process does nothing more.
        if (process.isDead) return new Promise(() => {});
        busy.delete(key);
        for (const { payload } of jobs) {
          ledger.handled += 1;
          const name = `${key} ${payload}`;
          if (seen.has(name)) continue;
          seen.add(name);
          ledger.first.set(key, [...(ledger.first.get(key) ?? []), Number(payload)]);
        }
      },
    count: () => seen.size,
  };
  return ledger;
}

/** Keys whose jobs were not first handled in order of publication. */
const outOfOrder = ({ first }: Ledger): string[] =>
  [...first].flatMap(([key, numbers]) =>
    numbers.some((number, i) => i > 0 && number < numbers[i - 1]!) ? [key] : [],
  );

await withPrograms(['rabbitmq', 'redis'], () => {
  let rabbit: TestServer;
  let redis: TestServer;
  const databases: Database[] = [];
  const processes: RabbitProcess[] = [];
  const stops: AbortController[] = [];

  beforeAll(async () => {
    [rabbit, redis] = await Promise.all([startRabbit(), startRedis()]);
  }, 60_000);
  afterEach(async () => {
    for (const stop of stops.splice(0)) stop.abort();
    for (const one of processes.splice(0)) await one.close();
    for (const db of databases.splice(0)) await db.close();
  });
  afterAll(async () => {
    await rabbit?.dispose();
    await redis?.dispose();
  });

  function install(partitions = 8): Installation {
    const db = openDatabase(':memory:');
    databases.push(db);
    const store = createEmbeddedStore(db);
    return { amqp: rabbit.url, redis: redis.url, store, prefix: `t${newSecret()}.`, partitions };
  }
  async function start(installation: Installation): Promise<RabbitProcess> {
    const one = await startProcess({ ...installation, heartbeatMs: 100, mortal: true });
    processes.push(one);
    return one;
  }
  /** Starts a process that consumes until it stops or is killed. */
  async function consumer(installation: Installation, ledger: Ledger, ms = 0, batch = 16) {
    const process = await start(installation);
    const stop = new AbortController();
    stops.push(stop);
    const state = { isDead: false };
    const ended = process.queue.consume('runs', ledger.handler(state, ms), {
      concurrency: 64,
      batch,
      signal: stop.signal,
    });
    return {
      process,
      async end() {
        stop.abort();
        await ended;
      },
      async kill() {
        state.isDead = true;
        await process.kill();
      },
    };
  }
  /** Publishes to a few keys until it is stopped. @returns the confirmed jobs */
  function publishing(queue: Queue, keys: number) {
    const confirmed: string[] = [];
    let next = 0;
    let stopped = false;
    const ended = (async () => {
      while (!stopped) {
        const jobs = Array.from({ length: 20 }, () => ({ key: `dc_${next % keys}`, payload: `${next++}` }));
        const sent = jobs.map((job) =>
          queue.publish('runs', job).then(
            () => confirmed.push(`${job.key} ${job.payload}`),
            () => {},
          ),
        );
        await Promise.all(sent);
        await pause(1);
      }
    })();
    return {
      confirmed,
      async stop() {
        stopped = true;
        await ended;
      },
    };
  }
  const missing = (confirmed: readonly string[], { first }: Ledger) =>
    confirmed.filter((name) => {
      const [key, payload] = name.split(' ') as [string, string];
      return !first.get(key)?.includes(Number(payload));
    });

  test('partitions move among three processes under load: no job is lost, keys stay in order and in one process at a time', async () => {
    const step = fc.record({ at: fc.nat({ max: 2 }), how: fc.constantFrom('end', 'kill'), ms: fc.nat(300) });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 4 }), async (steps) => {
        const installation = install();
        const ledger = createLedger();
        const all = [
          await consumer(installation, ledger, 2),
          await consumer(installation, ledger, 2),
          await consumer(installation, ledger, 2),
        ];
        const load = publishing((await start(installation)).queue, 40);
        await eventually(() => ledger.count() > 200);
        for (const { at, how, ms } of steps) {
          await pause(ms);
          await all[at]![how as 'end' | 'kill']();
          all[at] = await consumer(installation, ledger, 2);
        }
        await load.stop();
        await eventually(() => missing(load.confirmed, ledger).length === 0, { ms: 20_000, every: 100 });
        expect(outOfOrder(ledger)).toEqual([]);
        expect(ledger.overlaps).toEqual([]);
        for (const one of all) await one.end();
      }),
      { numRuns: 5, seed: SEED, endOnFailure: true },
    );
  }, 180_000);

  test('after the broker is killed under load, all confirmed jobs are handled in order of their key', async () => {
    const installation = install();
    const ledger = createLedger();
    await consumer(installation, ledger, 1);
    await consumer(installation, ledger, 1);
    const load = publishing((await start(installation)).queue, 40);
    await eventually(() => ledger.count() > 200);
    // RabbitMQ forgets queues declared within a second before a SIGKILL.
    await pause(3_000);
    for (let round = 0; round < 2; round++) {
      await rabbit.kill();
      await rabbit.start();
      const back = performance.now();
      const before = ledger.count();
      await eventually(() => ledger.count() > before + 200, { ms: 20_000 });
      expect(performance.now() - back).toBeLessThan(5_000);
    }
    await load.stop();
    await eventually(() => missing(load.confirmed, ledger).length === 0, { ms: 20_000, every: 100 });
    expect(outOfOrder(ledger)).toEqual([]);
    expect(ledger.overlaps).toEqual([]);
  }, 120_000);

  test('deleted queues are declared by consumers and by publishers', async () => {
    const installation = install(2);
    const ledger = createLedger();
    const { process } = await consumer(installation, ledger);
    await process.queue.publish('runs', { key: 'a', payload: '1' });
    await eventually(() => ledger.count() === 1);
    const amqp = await openAmqp({ url: rabbit.url, log: silentLog });
    const deleting = amqp.openChannel({
      name: 'deleting',
      async setup(channel) {
        for (const queue of ['runs', 'emitted']) {
          await channel.deleteQueue(`${installation.prefix}${queue}.${partitionOf('a', 2)}`);
        }
      },
    });
    await eventually(() => deleting.current !== undefined);
    await amqp.close();
    await process.queue.publish('runs', { key: 'a', payload: '2' });
    await process.queue.publish('emitted', { key: 'a', payload: '3' });
    await eventually(() => ledger.count() === 2);
    expect(await process.queue.depth('emitted')).toBe(1);
  });

  test('ten thousand jobs of a slow key block no other key and keep their order after a kill', async () => {
    const installation = install(2);
    const ledger = createLedger();
    const jobs = 10_000;
    const slow = Array.from({ length: jobs }, (_, n) => ({ key: 'slow', payload: `${n}` }));
    const partition = partitionOf('slow', 2);
    const others = Array.from({ length: 200 }, (_, n) => `dc_${n}`)
      .filter((key) => partitionOf(key, 2) === partition)
      .slice(0, 40);
    const slowly = { isDead: false };
    const delays: number[] = [];
    const sentAt = new Map<string, number>();
    const handle = ledger.handler(slowly);
    const one = await start(installation);
    const stop = new AbortController();
    stops.push(stop);
    const ended = one.queue.consume(
      'runs',
      async (batch) => {
        const { key } = batch[0];
        if (key === 'slow') await pause(200);
        else delays.push(performance.now() - sentAt.get(key)!);
        await handle(batch);
      },
      { concurrency: 8, batch: 4, signal: stop.signal },
    );
    await one.queue.publishMany('runs', slow);
    const { store } = installation;
    const rows = store.collection(overflow);
    await eventually(async () => (await rows.count()) > 8_000, { ms: 20_000, every: 100 });
    for (const key of others) {
      sentAt.set(key, performance.now());
      await one.queue.publish('runs', { key, payload: '0' });
    }
    await eventually(() => delays.length === others.length);
    expect(Math.max(...delays)).toBeLessThan(1_000);

    // Another process with a fast handler takes over.
    slowly.isDead = true;
    await one.kill();
    await consumer(installation, ledger, 0, 64);
    const late = await start(installation);
    await late.queue.publish('runs', { key: 'slow', payload: `${jobs}` });
    await eventually(() => ledger.first.get('slow')?.length === jobs + 1, { ms: 30_000, every: 50 });
    expect(outOfOrder(ledger)).toEqual([]);
    await eventually(
      async () => (await rows.count()) === 0 && (await store.collection(attempts).count()) === 0,
    );
    expect(await late.queue.depth('runs')).toBe(0);
    stop.abort();
    void ended;
  }, 120_000);

  test('a partition moves after its long-running job ends, and serves its other keys until then', async () => {
    const installation = install(1);
    const seen: string[] = [];
    const held = Promise.withResolvers<void>();
    const handleAs = (name: string) => async (jobs: readonly Job[]) => {
      if (jobs[0]!.key === 'long') await held.promise;
      seen.push(`${name} ${jobs[0]!.key}`);
    };
    async function consumeAs(name: string, process: RabbitProcess) {
      const stop = new AbortController();
      stops.push(stop);
      void process.queue.consume('runs', handleAs(name), { concurrency: 8, signal: stop.signal });
    }
    const one = await start(installation);
    await consumeAs('one', one);
    let other = await start(installation);
    const hasIt = () =>
      shareOf(other.member, [one.member, other.member], { group: 'runs', partitions: 1 }) === 1;
    while (!hasIt()) other = await start(installation);
    await one.queue.publish('runs', { key: 'long', payload: '0' });
    await one.queue.publish('runs', { key: 'dc_0', payload: '0' });
    await eventually(() => seen.length === 1);
    // Longer than LONG_RUNNING_MS.
    const begun = performance.now();
    await eventually(() => performance.now() - begun > 1_200);
    await consumeAs('other', other);
    for (let n = 1; n <= 20; n++) {
      await one.queue.publish('runs', { key: `dc_${n}`, payload: '0' });
      await eventually(() => seen.length === n + 1, { ms: 2_000 });
      await pause(100);
    }
    expect(new Set(seen.map((name) => name.split(' ')[0]))).toEqual(new Set(['one']));
    held.resolve();
    await eventually(async () => {
      await one.queue.publish('runs', { key: 'late', payload: '0' });
      return seen.includes('other late');
    });
    expect(seen).toContain('one long');
  }, 60_000);

  test('purging a slow key drops its overflow', async () => {
    const installation = install(2);
    const one = await start(installation);
    const seen: string[] = [];
    const held = Promise.withResolvers<void>();
    const stop = new AbortController();
    stops.push(stop);
    void one.queue.consume(
      'runs',
      async ([{ key, payload }]) => {
        seen.push(payload);
        if (key === 'dc_1') await held.promise;
      },
      { concurrency: 8, signal: stop.signal },
    );
    await one.queue.publishMany(
      'runs',
      Array.from({ length: 2_000 }, (_, n) => ({ key: 'dc_1', payload: `${n}` })),
    );
    const rows = installation.store.collection(overflow);
    await eventually(async () => (await rows.count()) > 1_500, { ms: 20_000, every: 50 });
    await one.queue.purgeKey('runs', 'dc_1');
    await eventually(async () => (await one.queue.depth('runs')) <= 1);
    await one.queue.publish('runs', { key: 'dc_1', payload: 'after' });
    held.resolve();
    await eventually(() => seen.includes('after'));
    expect(seen).toEqual(['0', 'after']);
    await eventually(async () => (await rows.count()) === 0);
  }, 60_000);

  test('processes keep their partitions while Redis is down', async () => {
    const installation = install();
    const ledger = createLedger();
    await consumer(installation, ledger);
    const publisher = await start(installation);
    const load = publishing(publisher.queue, 40);
    await eventually(() => ledger.count() > 200);
    await redis.kill();
    const before = ledger.count();
    await pause(1_500);
    await eventually(() => ledger.count() > before + 200);
    await redis.start();
    await consumer(installation, ledger);
    await load.stop();
    await eventually(() => missing(load.confirmed, ledger).length === 0, { ms: 20_000, every: 100 });
    expect(outOfOrder(ledger)).toEqual([]);
    expect(ledger.overlaps).toEqual([]);
  }, 60_000);
});
