import { setTimeout as pause } from 'node:timers/promises';
import { openAmqp } from '@wellspring/amqp/client';
import { type Clock, systemClock } from '@wellspring/core/clock';
import { newSecret } from '@wellspring/core/ids';
import { silentLog } from '@wellspring/core/log';
import { openRedis } from '@wellspring/redis/client';
import { createOwnership } from '@wellspring/redis/ownership';
import { openDatabase } from '@wellspring/sqlite/database';
import { createEmbeddedStore } from '@wellspring/store/embedded';
import type { Store } from '@wellspring/store/port';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import type { QueueSubject } from '../conformance.ts';
import { QUEUES, type Queue, type QueueName } from '../port.ts';
import { createRabbitQueue } from './queue.ts';

/** Few, so that keys share a partition. */
const PARTITIONS = 4;
const HEARTBEAT_MS = 20;

export interface RabbitProcess {
  queue: Queue;
  member: string;
  /** Closes its connections without finishing or releasing anything. */
  kill(): Promise<void>;
  close(): Promise<void>;
}

export interface Installation {
  amqp: string;
  redis: string;
  store: Store;
  prefix: string;
  clock?: Clock;
  partitions?: number;
  heartbeatMs?: number;
  /** After `kill`, the process does nothing more; otherwise its consumers can be awaited. */
  mortal?: boolean;
}

/** The queues of one process of an installation. */
export async function startProcess(installation: Installation): Promise<RabbitProcess> {
  const {
    store,
    prefix,
    clock = systemClock,
    partitions = PARTITIONS,
    heartbeatMs = HEARTBEAT_MS,
  } = installation;
  const log = silentLog;
  const amqp = await openAmqp({ url: installation.amqp, log });
  const redis = await openRedis({ url: installation.redis, prefix, log });
  const member = newSecret();
  let isDead = false;
  /** A sleep does not end after the kill. */
  const mortal = ({ now, sleep }: Clock): Clock => ({
    now,
    async sleep(ms, signal) {
      await sleep(ms, signal);
      if (isDead && installation.mortal) await new Promise(() => {});
    },
  });
  const ownerships = new Map(
    QUEUES.map((group) => {
      const options = {
        redis,
        clock: mortal(systemClock),
        log,
        group,
        partitions,
        member,
        heartbeatMs,
      };
      return [group, createOwnership(options)] as const;
    }),
  );
  const ownershipOf = (queue: QueueName) => ownerships.get(queue)!;
  const queue = createRabbitQueue({
    amqp,
    store,
    clock: mortal(clock),
    log,
    ownershipOf,
    partitions,
    prefix,
  });
  return {
    queue,
    member,
    async kill() {
      isDead = true;
      await Promise.all([amqp.close(), redis.close()]);
    },
    async close() {
      await queue.close();
      await amqp.close();
      await redis.close();
    },
  };
}

/** @param urls shared servers */
export async function openRabbitSubject(urls: { amqp: string; redis: string }): Promise<QueueSubject> {
  const clock = createFakeClock();
  const db = openDatabase(':memory:');
  const installation: Installation = {
    ...urls,
    store: createEmbeddedStore(db),
    prefix: `t${newSecret()}.`,
    clock,
  };
  const processes = [await startProcess(installation)];
  return {
    queue: processes[0]!.queue,
    now: clock.now,
    /** Time stands still while the servers work. */
    async advance(ms) {
      await pause(2);
      await clock.advance(ms);
    },
    async afterCrash() {
      await processes.at(-1)!.kill();
      const next = await startProcess(installation);
      processes.push(next);
      return next.queue;
    },
    async close() {
      for (const one of processes) await one.close();
      await db.close();
    },
  };
}
