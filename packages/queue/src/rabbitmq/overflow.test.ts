import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { partitionOf } from '@wellspring/core/partitions';
import { eventually } from '@wellspring/testing/eventually';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { withPrograms } from '@wellspring/testing/servers/servers';
import type { Job } from '../port.ts';
import { attempts, overflow } from './collections.ts';
import { createLedger, outOfOrder, useProcesses } from './faults.fixture.ts';
import type { RabbitProcess } from './process.fixture.ts';

await withPrograms(['rabbitmq'], () => {
  const { stops, install, start, consumer } = useProcesses();

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
    let slowBatches = 0;
    /** In batches of the slow key, 200 ms each: the wall clock would include delays of the machine. */
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
        if (key === 'slow') {
          slowBatches += 1;
          await pause(200);
        } else delays.push(slowBatches - sentAt.get(key)!);
        await handle(batch);
      },
      { batch: 4, signal: stop.signal },
    );
    await one.queue.publishMany('runs', slow);
    const { store } = installation;
    const rows = store.collection(overflow);
    await eventually(async () => (await rows.count()) > 8_000, { ms: 20_000, every: 100 });
    for (const key of others) {
      sentAt.set(key, slowBatches);
      await one.queue.publish('runs', { key, payload: '0' });
    }
    await eventually(() => delays.length === others.length);
    expect(Math.max(...delays)).toBeLessThan(5);

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

  test('overflow jobs of many keys take no memory for their payloads until they are handed out', async () => {
    const installation = install(1);
    const keys = Array.from({ length: 300 }, (_, n) => `dc_${n}`);
    const payload = 'x'.repeat(50_000);
    const open = Promise.withResolvers<void>();
    const asked = new Set<string>();
    const seen: string[] = [];
    /** Keys wait for their admission. */
    const consumeIn = ({ queue }: RabbitProcess) => {
      const stop = new AbortController();
      stops.push(stop);
      void queue.consume('runs', async ([job]) => void seen.push(`${job.key} ${job.payload}`), {
        async admit(key) {
          asked.add(key);
          await open.promise;
          return { owner: key, release() {} };
        },
        signal: stop.signal,
      });
    };
    const first = await start(installation);
    consumeIn(first);
    await first.queue.publishMany(
      'runs',
      keys.map((key) => ({ key, payload: `${key} ${payload}` })),
    );
    const rows = installation.store.collection(overflow);
    await eventually(async () => (await rows.count()) > 100, { ms: 30_000, every: 50 });
    await first.kill();
    asked.clear();
    let bytesRead = 0;
    const collection: typeof installation.store.collection = (definition) => {
      const found = installation.store.collection(definition);
      return {
        ...found,
        async list(options) {
          const listed = await found.list(options);
          for (const row of listed) bytesRead += ((row as { payload?: string }).payload ?? '').length;
          return listed;
        },
      };
    };
    consumeIn(await start({ ...installation, store: { ...installation.store, collection } }));
    await eventually(() => asked.size === keys.length, { ms: 30_000, every: 50 });
    expect(bytesRead).toBe(0);
    open.resolve();
    await eventually(() => new Set(seen).size === keys.length, { ms: 30_000, every: 50 });
    expect(new Set(seen)).toEqual(new Set(keys.map((key) => `${key} ${key} ${payload}`)));
    await eventually(async () => (await rows.count()) === 0);
  }, 120_000);

  test('rows behind those of finished jobs are found', async () => {
    const clock = createFakeClock();
    const installation = { ...install(1), clock };
    const rows = installation.store.collection(overflow);
    const one = await start(installation);
    const seen: Job[] = [];
    const stop = new AbortController();
    stops.push(stop);
    void one.queue.consume('runs', async ([job]) => void seen.push(job), { signal: stop.signal });
    await one.queue.publish('runs', { key: 'dc_1', payload: 'done' });
    await eventually(() => seen.length === 1);
    await eventually(async () => (await one.queue.depth('runs')) === 0);
    // Written late by a former owner: a job that was redelivered and is done, and one that was not.
    const row = { partition: 'runs.0', key: 'dc_1', bytes: 4, published_at: 1 };
    await rows.insertMany([
      { ...row, id: seen[0]!.id, seq: 1, payload: 'done' },
      { ...row, id: 'late', seq: 2, payload: 'left' },
    ]);
    await eventually(async () => {
      await clock.advance(30_000);
      return seen.length === 2;
    });
    expect(seen[1]).toMatchObject({ id: 'late', payload: 'left', redelivered: true });
    await eventually(async () => (await rows.count()) === 0);
  }, 60_000);
});
