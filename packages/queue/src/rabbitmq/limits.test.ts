import { randomBytes } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { createByteBudget } from '@wellspring/core/byte-budget';
import { newSecret } from '@wellspring/core/ids';
import { openDatabase } from '@wellspring/sqlite/database';
import { createEmbeddedStore } from '@wellspring/store/embedded';
import { eventually } from '@wellspring/testing/eventually';
import { closeAfterEach } from '@wellspring/testing/lifetimes';
import { withServers } from '@wellspring/testing/servers/servers';
import { startProcess } from './process.fixture.ts';

const MB = 1024 * 1024;
const SLOW_KEYS = 20;
const JOBS_PER_KEY = 66;

await withServers(['rabbitmq'], ({ rabbitmq }) => {
  const closing = closeAfterEach();

  test('twenty slow keys with large jobs keep the memory within its bound, other keys go on, and all jobs are handled in order', async () => {
    const memory = {
      runs: createByteBudget(4 * MB),
      emitted: createByteBudget(MB),
      waiting: createByteBudget(32 * MB),
    };
    const installation = {
      amqp: rabbitmq,
      store: createEmbeddedStore(closing(openDatabase(':memory:'))),
      prefix: `t${newSecret()}.`,
      partitions: 4,
      renewMs: 100,
      leaseMs: 6_000,
      memory,
    };
    const publisher = closing(await startProcess(installation));
    const payload = randomBytes(375_000).toString('base64');
    for (let n = 0; n < JOBS_PER_KEY; n++) {
      const jobs = Array.from({ length: SLOW_KEYS }, (_, key) => ({
        key: `slow${key}`,
        payload: `${n} ${payload}`,
      }));
      await publisher.queue.publishMany('runs', jobs);
    }
    const consumer = closing(await startProcess(installation));
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, consumer.queue.bytesInMemory('runs'));
    }, 5);
    const stop = new AbortController();
    const held = Promise.withResolvers<void>();
    const seen = new Map<string, number[]>();
    const ended = consumer.queue.consume(
      'runs',
      async (jobs) => {
        if (jobs[0].key.startsWith('slow')) await held.promise;
        for (const { key, payload } of jobs)
          seen.set(key, [...(seen.get(key) ?? []), Number(payload.split(' ')[0])]);
      },
      { batch: 16, signal: stop.signal },
    );
    const quick = Array.from({ length: 40 }, (_, n) => ({ key: `quick${n}`, payload: '0' }));
    await publisher.queue.publishMany('runs', quick);
    await eventually(() => quick.every(({ key }) => seen.has(key)), { ms: 120_000, every: 50 });
    held.resolve();
    await eventually(() => [...seen.values()].flat().length === SLOW_KEYS * JOBS_PER_KEY + quick.length, {
      ms: 90_000,
      every: 50,
    });
    clearInterval(watch);
    for (const [key, numbers] of seen) {
      if (key.startsWith('slow')) expect(numbers).toEqual(Array.from({ length: JOBS_PER_KEY }, (_, n) => n));
    }
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(memory.waiting.total);
    stop.abort();
    await ended;
  }, 240_000);
});
