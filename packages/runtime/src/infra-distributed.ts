import { openAmqp } from '@wellspring/amqp/client';
import { createGridFsBlob } from '@wellspring/blob/gridfs';
import { createRabbitCall } from '@wellspring/call/rabbitmq';
import { KEYED_CALLS } from '@wellspring/contract/calls';
import type { Clock } from '@wellspring/core/clock';
import { newSecret } from '@wellspring/core/ids';
import type { Log } from '@wellspring/core/log';
import type { Memory } from '@wellspring/core/memory';
import type { Metrics } from '@wellspring/core/metrics';
import { partitionOf } from '@wellspring/core/partitions';
import { createTokenBuckets } from '@wellspring/core/token-buckets';
import { openMongo } from '@wellspring/mongodb/client';
import { changedTopic, PARTITIONS_CHANGED } from '@wellspring/pubsub/port';
import { createRedisPubSub } from '@wellspring/pubsub/redis';
import { assertInstallation } from '@wellspring/queue/installation';
import { createLeases } from '@wellspring/queue/leases';
import { QUEUES } from '@wellspring/queue/port';
import { createRabbitQueue } from '@wellspring/queue/rabbitmq';
import { openRedis } from '@wellspring/redis/client';
import { createSharedBuckets } from '@wellspring/redis/token-buckets';
import { lockDirectory } from '@wellspring/sqlite/lock';
import { createMongoStore } from '@wellspring/store/mongodb';
import type { Config } from './config.ts';
import type { Ports } from './deps.ts';
import { untilAvailable } from './until-available.ts';

/** Of each queue. Never changes in an installation: a key must not change its partition. */
export const PARTITIONS = 32;

interface Urls {
  amqpUrl: string;
  redisUrl: string;
  mongodbUrl: string;
}

/**
 * The adapters on RabbitMQ, Redis and MongoDB; waits for unreachable servers. The data directory contains only
 * caches.
 * @throws Error when a server refuses the credentials or is too old, the queues have another number of partitions, the
 * vhost of RabbitMQ belongs to another installation, or another process holds the data directory
 */
export async function openDistributed(
  config: Pick<Config, 'dataDir' | 's3Url'> & Urls,
  { clock, log, metrics, memory }: { clock: Clock; log: Log; metrics: Metrics; memory: Memory },
): Promise<Ports> {
  const closers: (() => Promise<void> | void)[] = [lockDirectory(config.dataDir)];
  const close = async () => {
    for (const one of closers.splice(0).reverse()) await one();
  };
  /** Closed in the reverse order. */
  const opened = <T extends { close(): Promise<void> }>(one: T): T => {
    closers.push(() => one.close());
    return one;
  };
  try {
    const openBlob = async () => {
      if (config.s3Url === null) return createGridFsBlob(mongo, { clock });
      // Loaded on demand: its client is large.
      const { createS3Blob } = await import('@wellspring/blob/s3');
      return createS3Blob({ url: config.s3Url, clock });
    };
    const mongo = opened(await openMongo({ url: config.mongodbUrl, log, metrics }));
    const redis = opened(await openRedis({ url: config.redisUrl, log }));
    const amqp = opened(await openAmqp({ url: config.amqpUrl, log, unconfirmed: memory.publishers }));
    const member = newSecret();
    const store = opened(createMongoStore(mongo, { clock }));
    await untilAvailable({ mode: 'distributed', clock, log }, () =>
      assertInstallation({ store, amqp, partitions: PARTITIONS }),
    );
    const pubsub = opened(await createRedisPubSub(redis, { log }));
    const leases = createLeases({
      store,
      clock,
      log,
      member,
      partitions: PARTITIONS,
      wakeUp: {
        send: () => pubsub.publish(PARTITIONS_CHANGED),
        onReceived: (listener) => pubsub.subscribe(PARTITIONS_CHANGED, listener),
        sendEnded: (other) => pubsub.publish(changedTopic(other)),
        onEnded: (listener) => pubsub.subscribe(changedTopic(member), listener),
      },
      isAble: () => amqp.isUp,
    });
    for (const name of QUEUES) {
      metrics.gauge(
        'wellspring_queue_partitions',
        'Partitions of the queue that this process has',
        () => leases.held(name),
        { queue: name },
      );
    }
    const queue = createRabbitQueue({
      amqp,
      store,
      clock,
      log,
      leases,
      memory,
      partitions: PARTITIONS,
    });
    const call = createRabbitCall({
      amqp,
      log,
      member,
      keyed: KEYED_CALLS,
      ownerOf: (key) => leases.holderOf('runs', partitionOf(key, PARTITIONS)),
      owns: (key) => leases.holds('runs', partitionOf(key, PARTITIONS)),
    });
    return {
      store,
      queue: opened(queue),
      pubsub,
      call: opened(call),
      blob: opened(await openBlob()),
      buckets: createSharedBuckets(redis, createTokenBuckets(clock)),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
