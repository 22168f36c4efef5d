import { setTimeout as pause } from 'node:timers/promises';
import { openAmqp } from '@wellspring/amqp/client';
import { type Clock, systemClock } from '@wellspring/core/clock';
import { newSecret } from '@wellspring/core/ids';
import { type Log, silentLog } from '@wellspring/core/log';
import { createMemory } from '@wellspring/core/memory';
import { openDatabase } from '@wellspring/sqlite/database';
import { createEmbeddedStore } from '@wellspring/store/embedded';
import type { Store } from '@wellspring/store/port';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import type { QueueSubject, SubjectOptions } from '../conformance.ts';
import { createLeases } from './leases.ts';
import { createRabbitQueue, type RabbitQueue, type RabbitQueueOptions } from './queue.ts';
import type { WakeUp } from './session.ts';

/** Few, so that keys share a partition. */
const PARTITIONS = 4;
const RENEW_MS = 20;
const LEASE_MS = 1_500;

export interface RabbitProcess {
  queue: RabbitQueue;
  member: string;
  /** Closes its connections without finishing or releasing anything. */
  kill(): Promise<void>;
  close(): Promise<void>;
}

export interface Installation {
  amqp: string;
  store: Store;
  prefix: string;
  clock?: Clock;
  partitions?: number;
  renewMs?: number;
  leaseMs?: number;
  publishTimeoutMs?: number;
  log?: Log;
  memory?: RabbitQueueOptions['memory'];
  /** After `kill`, the process does nothing more; otherwise its consumers can be awaited. */
  mortal?: boolean;
}

/** Listeners by prefix of the installation. */
const wakeUps = new Map<string, Set<() => void>>();
/** Listeners by name of the process. */
const endings = new Map<string, () => void>();
function wakeUpOf(prefix: string, member: string): WakeUp {
  const listeners = wakeUps.get(prefix) ?? new Set();
  wakeUps.set(prefix, listeners);
  return {
    send() {
      for (const listener of listeners) listener();
    },
    onReceived: (listener) => listeners.add(listener),
    sendEnded: (other) => endings.get(other)?.(),
    onEnded: (listener) => endings.set(member, listener),
  };
}

/** The queues of one process of an installation. */
export async function startProcess(installation: Installation): Promise<RabbitProcess> {
  const {
    store,
    prefix,
    clock = systemClock,
    partitions = PARTITIONS,
    renewMs = RENEW_MS,
    leaseMs = LEASE_MS,
    memory = createMemory(1024 ** 3),
    log = silentLog,
    publishTimeoutMs,
  } = installation;
  const amqp = await openAmqp({ url: installation.amqp, log, publishTimeoutMs });
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
  const leases = createLeases({
    store,
    clock: mortal(systemClock),
    log,
    member,
    partitions,
    wakeUp: wakeUpOf(prefix, member),
    isAble: () => amqp.isUp,
    renewMs,
    leaseMs,
  });
  const queue = createRabbitQueue({
    amqp,
    store,
    clock: mortal(clock),
    log,
    leases,
    memory,
    partitions,
    prefix,
  });
  return {
    queue,
    member,
    async kill() {
      isDead = true;
      await amqp.close();
    },
    async close() {
      await queue.close();
      await amqp.close();
    },
  };
}

/** @param amqp URL of a shared server */
export async function openRabbitSubject(
  amqp: string,
  { crashes = false }: SubjectOptions = {},
): Promise<QueueSubject> {
  const clock = createFakeClock();
  const db = openDatabase(':memory:');
  const installation: Installation = {
    amqp,
    store: createEmbeddedStore(db),
    prefix: `t${newSecret()}.`,
    clock,
    // It runs in real time: only tests that wait for its end have a short one.
    leaseMs: crashes ? LEASE_MS : 60_000,
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
