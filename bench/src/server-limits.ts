import { consume } from '@wellspring/amqp/channel';
import { openAmqp } from '@wellspring/amqp/client';
import { silentLog } from '@wellspring/core/log';
import { openMongo } from '@wellspring/mongodb/client';

/** What the servers do by themselves, with 1 KB and this many under way. */
const UNDER_WAY = 256;
const INSERTS_UNDER_WAY = 32;
const PAYLOAD = Buffer.alloc(1024, 'x');

/** Messages a second through a quorum queue: published with confirms, consumed and confirmed. */
export async function brokerLimit(url: string, count: number): Promise<number> {
  const amqp = await openAmqp({ url, log: silentLog });
  const queue = `bench.${process.pid}.${performance.now()}`;
  const { promise: done, resolve } = Promise.withResolvers<void>();
  const ready = Promise.withResolvers<void>();
  let seen = 0;
  amqp.openChannel({
    name: 'bench',
    async setup(channel) {
      await channel.assertQueue(queue, { durable: true, arguments: { 'x-queue-type': 'quorum' } });
      await channel.prefetch(UNDER_WAY);
      await consume(channel, queue, (message) => {
        channel.ack(message);
        seen += 1;
        if (seen === count) resolve();
      });
      ready.resolve();
    },
  });
  await ready.promise;
  const publisher = amqp.openPublisher('bench');
  const begun = performance.now();
  await together(count, UNDER_WAY, () =>
    publisher.publish({
      routingKey: queue,
      content: PAYLOAD,
      options: { persistent: true, mandatory: true },
    }),
  );
  await done;
  const seconds = (performance.now() - begun) / 1000;
  await amqp.close();
  return count / seconds;
}

/** Inserts a second of one document of 1 KB each. */
export async function storeLimit(url: string, count: number): Promise<number> {
  const mongo = await openMongo({ url, database: 'bench', log: silentLog });
  const collection = mongo.db.collection<{ _id: string; text: string }>(`inserts${process.pid}`);
  const text = PAYLOAD.toString();
  const begun = performance.now();
  await together(count, INSERTS_UNDER_WAY, (n) => collection.insertOne({ _id: String(n), text }));
  const seconds = (performance.now() - begun) / 1000;
  await mongo.close();
  return count / seconds;
}

async function together(
  count: number,
  underWay: number,
  work: (n: number) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: underWay }, async () => {
      while (next < count) await work(next++);
    }),
  );
}
