import { randomUUID } from 'node:crypto';
import { existsSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { type Clock, systemClock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { noMetrics } from '@wellspring/core/metrics';
import { type Job, type JobInput, QUEUES, type Queue } from '@wellspring/queue/port';
import type { Config } from '@wellspring/runtime/config';
import { prepareDataDirectory } from '@wellspring/runtime/data-directory';
import type { Ports } from '@wellspring/runtime/deps';
import { openDistributed } from '@wellspring/runtime/infra-distributed';
import { MOVED, MOVING, openEmbedded } from '@wellspring/runtime/infra-embedded';
import { openMemory } from '@wellspring/runtime/memory';
import { readIfThere, writePrivate } from '@wellspring/runtime/private-file';
import { checkRootKeys } from '@wellspring/runtime/root-key';
import { moves } from '@wellspring/runtime/unfinished-move';
import { collections } from '@wellspring/store/collections/all';
import { revisions } from '@wellspring/store/collections/revisions';
import { copyStore } from '@wellspring/store/copy';
import type { Store } from '@wellspring/store/port';
import { requireData } from './open-ports.ts';

/** Jobs per batch. */
const BATCH_SIZE = 64;
const POLL_INTERVAL_MS = 50;

export interface MoveOptions {
  config: Config;
  clock?: Clock;
  log: Log;
  /** Called with progress messages. */
  say(text: string): void;
}

/**
 * Copies the rows, files and waiting jobs of an embedded data directory to RabbitMQ and MongoDB. No process may run on
 * either side. The directory is kept without its jobs, and marked so that the platform does not start from it. An
 * interrupted move can be repeated, unless the platform ran on the directory since: the copy skips rows that exist.
 * @throws Error that names an obstacle, before anything is changed
 */
export async function move({ config, clock = systemClock, log, say }: MoveOptions): Promise<void> {
  const { dataDir, amqpUrl, redisUrl, mongodbUrl, s3Url, secretKeys } = config;
  if (!amqpUrl || !redisUrl || !mongodbUrl || !secretKeys) {
    throw new Error(
      'Set WELLSPRING_AMQP_URL, WELLSPRING_REDIS_URL, WELLSPRING_MONGODB_URL and WELLSPRING_SECRET_KEY of the target.',
    );
  }
  requireData(dataDir);
  if (existsSync(join(dataDir, MOVED))) {
    say('The data directory was moved before.');
    return;
  }
  prepareDataDirectory(dataDir, log, true);
  const memory = openMemory(config, noMetrics);
  const from = openEmbedded(config, { clock, log, metrics: noMetrics, memory });
  try {
    const caches = join(dataDir, 'move');
    const urls = { amqpUrl, redisUrl, mongodbUrl, s3Url };
    const to = await openDistributed(
      { dataDir: caches, ...urls },
      { clock, log, metrics: noMetrics, memory },
    );
    try {
      await moveData(dataDir, from, to, { secretKeys, clock, say });
    } finally {
      await to.close();
    }
  } finally {
    await from.close();
  }
}

/**
 * @param options.secretKeys root keys of the target
 * @throws Error that names an obstacle, before anything is changed
 */
export async function moveData(
  dataDir: string,
  from: Ports,
  to: Ports,
  {
    secretKeys,
    clock,
    say,
  }: Required<Pick<MoveOptions, 'clock' | 'say'>> & { secretKeys: readonly string[] },
): Promise<void> {
  await checkRootKeys(from.store, secretKeys);
  const moving = join(dataDir, MOVING);
  const before = readIfThere(moving);
  await check(from, to, before);
  const id = before ?? randomUUID();
  if (before === undefined) writePrivate(moving, id);
  await to.store.collection(moves).insertMany([{ id: 'move', from: id, done_at: null }]);
  await copyStore(from.store, to.store, ({ collection, rows }) => say(`${collection}: ${rows} rows`));
  say(`files: ${await copyBlobs(from, to, clock)}`);
  for (const queue of QUEUES) say(`jobs of ${queue}: ${await moveJobs(queue, from.queue, to.queue, clock)}`);
  await to.store.collection(moves).patch('move', { done_at: clock.now() });
  renameSync(moving, join(dataDir, MOVED));
}

/** @param interrupted id of the move that began from this directory */
async function check(from: Ports, to: Ports, interrupted: string | undefined): Promise<void> {
  const dead = await from.queue.deadLetters.count();
  if (dead > 0) throw new Error(`There are ${dead} dead letters: redrive or drop them first.`);
  const found = await to.store.collection(moves).get('move');
  if (found ? found.from !== interrupted : await holdsRows(to.store)) {
    throw new Error(
      'The target is not empty: it holds data of another platform, or of a move after which the platform ran on the data directory again.',
    );
  }
}

/** Whether it holds any row. A process that was only started has left its root key, which may be another one. */
async function holdsRows(store: Store): Promise<boolean> {
  for (const one of collections)
    if (one.name !== revisions.name && (await store.collection(one).count({}, 1)) > 0) return true;
  return false;
}

async function copyBlobs(from: Ports, to: Ports, clock: Clock): Promise<number> {
  const ids = await from.blob.list();
  for (const id of ids) {
    const found = await from.blob.get(id);
    if (!found) continue;
    const { bytes, contentType, filename, until } = found;
    await to.blob.put(bytes, { id, contentType, filename, ttlMs: until - clock.now() });
  }
  return ids.length;
}

/** Removes each job when it is durable in the target; jobs of a key stay in order. */
async function moveJobs(
  name: (typeof QUEUES)[number],
  from: Queue,
  to: Queue,
  clock: Clock,
): Promise<number> {
  let moved = 0;
  const stop = new AbortController();
  const ended = from.consume(
    name,
    async (jobs) => {
      await to.publishMany(name, jobs.map(republished));
      moved += jobs.length;
    },
    { batch: BATCH_SIZE, signal: stop.signal },
  );
  while ((await from.depth(name)) > 0) await clock.sleep(POLL_INTERVAL_MS);
  stop.abort();
  await ended;
  return moved;
}

/** The message is flagged, since the target does not know that its job may have been handled before. */
function republished({ key, payload, redelivered }: Job): JobInput {
  return { key, payload: redelivered ? JSON.stringify({ ...JSON.parse(payload), redelivered }) : payload };
}
