import { expect, test } from '@jest/globals';
import { openAmqp } from '@wellspring/amqp/client';
import { newSecret } from '@wellspring/core/ids';
import { type Log, silentLog } from '@wellspring/core/log';
import { Unavailable } from '@wellspring/core/unavailable';
import { openDatabase } from '@wellspring/sqlite/database';
import { createEmbeddedStore } from '@wellspring/store/embedded';
import { eventually } from '@wellspring/testing/eventually';
import { numbers } from '@wellspring/testing/numbers';
import { withServers } from '@wellspring/testing/servers/servers';
import { queueConformance } from '../conformance.ts';
import { sessions } from './collections.ts';
import { openRabbitSubject, startProcess } from './process.fixture.ts';

await withServers(['rabbitmq'], ({ rabbitmq }) => {
  queueConformance('RabbitMQ', (options) => openRabbitSubject(rabbitmq, options));

  test('a job that was out when its process was killed is flagged as redelivered; others are not', async () => {
    const db = openDatabase(':memory:');
    const store = createEmbeddedStore(db);
    const prefix = `t${newSecret()}.`;
    const installation = { amqp: rabbitmq, store, prefix, partitions: 8, renewMs: 100, leaseMs: 60_000 };
    const stop = new AbortController();
    const out = Promise.withResolvers<void>();
    const first = await startProcess({ ...installation, mortal: true });
    void first.queue.consume(
      'runs',
      () => {
        out.resolve();
        return new Promise(() => {});
      },
      { signal: new AbortController().signal },
    );
    await first.queue.publish('runs', { key: 'dc_1', payload: 'out' });
    await out.promise;
    await first.kill();
    // Its session ends here instead of after the lease.
    const rows = store.collection(sessions);
    for (const { id } of await rows.list()) await rows.remove(id);
    const second = await startProcess({ ...installation, mortal: true });
    const seen: string[] = [];
    const ended = second.queue.consume(
      'runs',
      async ([job]) => {
        seen.push(`${job.payload} ${job.redelivered}`);
      },
      { signal: stop.signal },
    );
    await eventually(() => seen.length === 1, { ms: 15_000 });
    await second.queue.publish('runs', { key: 'dc_1', payload: 'new' });
    await eventually(() => seen.length === 2);
    expect(seen).toEqual(['out true', 'new undefined']);
    stop.abort();
    await ended;
    await first.close();
    await second.close();
    await db.close();
  });

  test('consumers that start while the queues are being declared lose no connection', async () => {
    const lost: unknown[] = [];
    const log: Log = { ...silentLog, warn: (...entry) => void lost.push(entry) };
    for (const _ of numbers(8)) {
      const db = openDatabase(':memory:');
      const installation = { amqp: rabbitmq, store: createEmbeddedStore(db), prefix: `t${newSecret()}.` };
      const { queue, close } = await startProcess({ ...installation, partitions: 16, leaseMs: 60_000, log });
      const stop = new AbortController();
      let left = 32;
      const ended = queue.consume('runs', async () => void left--, { signal: stop.signal });
      await queue.publishMany(
        'runs',
        numbers(left).map((n) => ({ key: `dc_${n}`, payload: '{}' })),
      );
      await eventually(() => left === 0);
      stop.abort();
      await ended;
      await close();
      await db.close();
    }
    expect(lost).toEqual([]);
  });

  test('a process answers pings once its queues are declared, not while RabbitMQ refuses them', async () => {
    const db = openDatabase(':memory:');
    const prefix = `t${newSecret()}.`;
    const amqp = await openAmqp({ url: rabbitmq, log: silentLog });
    const operator = amqp.openChannel({ name: 'operator', setup: async () => {} });
    const channel = await eventually(() => operator.current ?? false);
    // RabbitMQ refuses to declare it with the arguments of the platform, as it does without permissions.
    await channel.assertQueue(`${prefix}emitted.7`, { durable: true });
    const refused = Promise.withResolvers<void>();
    const log: Log = { ...silentLog, warn: () => refused.resolve() };
    const installation = { amqp: rabbitmq, store: createEmbeddedStore(db), prefix, partitions: 8, log };
    const { queue, close } = await startProcess(installation);
    await refused.promise;
    await expect(queue.ping()).rejects.toThrow(Unavailable);
    await channel.deleteQueue(`${prefix}emitted.7`);
    await eventually(() => queue.ping());
    await close();
    await amqp.close();
    await db.close();
  });

  test('a job is flagged as redelivered after a failure', async () => {
    const { queue, advance, close } = await openRabbitSubject(rabbitmq);
    const stop = new AbortController();
    const seen: (true | undefined)[] = [];
    const ended = queue.consume(
      'emitted',
      async ([job]) => {
        if (seen.push(job.redelivered) === 1) throw new Unavailable('at the moment');
      },
      { signal: stop.signal },
    );
    await queue.publish('emitted', { key: 'dc_1', payload: 'x' });
    await eventually(async () => {
      await advance(1_000);
      return seen.length === 2;
    });
    expect(seen).toEqual([undefined, true]);
    stop.abort();
    await ended;
    await close();
  });
});
