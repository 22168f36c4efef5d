import { consume } from '@wellspring/amqp/channel';
import { openAmqp } from '@wellspring/amqp/client';
import { silentLog } from '@wellspring/core/log';
import { openMongo } from '@wellspring/mongodb/client';

/** Rates of the servers alone, with 1 KB and this many operations in flight. */
const UNDER_WAY = 256;
const INSERTS_UNDER_WAY = 32;
const PAYLOAD = Buffer.alloc(1024, 'x');

/** Messages per second through a quorum queue: published with confirms, consumed and confirmed. */
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
  await inParallel(count, UNDER_WAY, () =>
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

/** Documents of 1 KB inserted per second, this many per statement. */
export async function storeLimit(url: string, count: number, together: number): Promise<number> {
  const mongo = await openMongo({ url, database: 'bench', log: silentLog });
  const collection = mongo.db.collection<{ _id: string; text: string }>(`inserts${process.pid}.${together}`);
  const text = PAYLOAD.toString();
  const begun = performance.now();
  await inParallel(count / together, INSERTS_UNDER_WAY, (n) =>
    collection.insertMany(
      Array.from({ length: together }, (_, i) => ({ _id: `${n}/${i}`, text })),
      { ordered: false },
    ),
  );
  const seconds = (performance.now() - begun) / 1000;
  await collection.drop();
  await mongo.close();
  return count / seconds;
}

/** Documents inserted, changed or removed since the start of the database. */
export async function documentsWritten(url: string): Promise<number> {
  const mongo = await openMongo({ url, database: 'admin', log: silentLog });
  const { metrics } = await mongo.db.command({ serverStatus: 1 });
  await mongo.close();
  const { inserted, updated, deleted } = metrics.document as Record<string, number>;
  return Number(inserted) + Number(updated) + Number(deleted);
}

async function inParallel(
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
