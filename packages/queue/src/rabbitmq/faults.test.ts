import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { openAmqp } from '@wellspring/amqp/client';
import { silentLog } from '@wellspring/core/log';
import { partitionOf } from '@wellspring/core/partitions';
import { eventually } from '@wellspring/testing/eventually';
import { withPrograms } from '@wellspring/testing/servers/servers';
import fc from 'fast-check';
import type { Job } from '../port.ts';
import { createLedger, missing, outOfOrder, publishing, useProcesses } from './faults.fixture.ts';
import type { RabbitProcess } from './process.fixture.ts';

const SEED = Number(process.env.QUEUE_SEED ?? 20261121);

await withPrograms(['rabbitmq'], () => {
  const { servers, stops, install, start, consumer } = useProcesses();

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
      await servers.rabbit.kill();
      await servers.rabbit.start();
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
    const amqp = await openAmqp({ url: servers.rabbit.url, log: silentLog });
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

  test('a partition moves after its long-running job ends, and serves its other keys until then', async () => {
    // No lease may expire while this process is slow.
    const installation = { ...install(2), leaseMs: 60_000 };
    const seen: string[] = [];
    const held = Promise.withResolvers<void>();
    const long = [0, 1].map(
      (partition) =>
        Array.from({ length: 20 }, (_, n) => `long${n}`).find((key) => partitionOf(key, 2) === partition)!,
    );
    const handleAs = (name: string) => async (jobs: readonly Job[]) => {
      if (long.includes(jobs[0]!.key)) await held.promise;
      seen.push(`${name} ${jobs[0]!.key}`);
    };
    async function consumeAs(name: string, process: RabbitProcess) {
      const stop = new AbortController();
      stops.push(stop);
      void process.queue.consume('runs', handleAs(name), { signal: stop.signal });
    }
    const one = await start(installation);
    await consumeAs('one', one);
    for (const key of long) await one.queue.publish('runs', { key, payload: '0' });
    await one.queue.publish('runs', { key: 'dc_0', payload: '0' });
    await eventually(() => seen.length === 1);
    // Longer than LONG_RUNNING_MS.
    const begun = performance.now();
    await eventually(() => performance.now() - begun > 1_200);
    await consumeAs('other', await start(installation));
    for (let n = 1; n <= 20; n++) {
      await one.queue.publish('runs', { key: `dc_${n}`, payload: '0' });
      await eventually(() => seen.length === n + 1, { ms: 2_000 });
      await pause(100);
    }
    expect(new Set(seen.map((name) => name.split(' ')[0]))).toEqual(new Set(['one']));
    held.resolve();
    await eventually(async () => {
      for (const key of ['late0', 'late1', 'late2', 'late3'])
        await one.queue.publish('runs', { key, payload: '0' });
      return seen.some((name) => name.startsWith('other late'));
    });
    for (const key of long) expect(seen).toContain(`one ${key}`);
  }, 60_000);
});
