import { totalmem } from 'node:os';
import { LIMITS } from '@wellspring/contract/limits';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { type Child, startChild } from './child-process.ts';
import type { Materialise } from './packages/materialise.ts';
import { createPool } from './pool.ts';
import type { Host, Result, Task } from './port.ts';
import type { CallFrame } from './protocol.ts';
import type { Slots } from './slots.ts';
import type { Tier } from './tiers/tier.ts';

export interface WorkersOptions {
  tier: Tier;
  slots: Slots;
  materialise: Materialise;
  clock: Clock;
  log: Log;
  /** Processes kept ready ahead of their use. */
  pool: number;
}

/** A process with the code of one deployment. */
export interface Worker {
  readonly child: Child;
  readonly bundleId: string;
  calls: number;
  /** Calls under way or waiting in it. */
  busy: number;
  /** performance.now() of its last use. */
  usedAt: number;
  /** Settles with the newest call. Never rejects. */
  last: Promise<unknown>;
  /** It ends with the calls that it has. */
  retired: boolean;
  load: CallFrame['load'] | undefined;
  started: boolean;
  dbRevision: number;
}

/** The processes at work and those that wait for more, by process key. */
export interface Workers {
  /** The process of this key, whatever it runs. */
  get(key: string): Worker | undefined;
  /** A new process for the task, in the place of the one that its key had. */
  start(task: Task): Promise<Worker>;
  /** @returns what came of it; undefined when the process ended before it began with it */
  call(
    worker: Worker,
    task: Task,
    host: Host,
    options: { timeoutMs: number; signal?: AbortSignal },
  ): Promise<Result | undefined>;
  retire(keyPrefix: string, atOnce: boolean): void;
  stats(): { processes: number; idle: number; busy: number; pool: number };
  close(): Promise<void>;
}

/** A process is given up after so many calls, so that what leaks goes. */
const MOST_CALLS = 100_000;
const IDLE_MS = 10 * 60_000;
const SAMPLE_MS = 100;
/** An idle process is looked at each time so many samples were taken: there may be hundreds. */
const IDLE_SAMPLES = 3;
/** What an empty process holds, about. */
const BASE_BYTES = 80 * 1024 * 1024;
/** Of the machine, or of the container when that may use less. */
const MEMORY_BYTES = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);
/** Idle processes: half of the memory at what one holds, about. */
const MOST_IDLE = Math.max(8, Math.floor(MEMORY_BYTES / 2 / (64 * 1024 * 1024)));

/** It can take this task. */
export const suits = (worker: Worker, { bundleId }: Task): boolean =>
  worker.child.usable && !worker.retired && worker.bundleId === bundleId && worker.calls < MOST_CALLS;

/** Somebody else changed the map of `$service.db`. */
export const isOutdated = (worker: Worker, { instance }: Task): boolean =>
  worker.started && instance !== undefined && instance.dbRevision !== worker.dbRevision;

function frameOf(worker: Worker, task: Task): CallFrame {
  const { instance, call } = task;
  const frame: CallFrame = { call };
  if (worker.load) frame.load = worker.load;
  if (instance && !worker.started) frame.instance = instance;
  else if (instance && isOutdated(worker, task)) frame.db = instance.db;
  worker.load = undefined;
  worker.started ||= instance !== undefined;
  worker.dbRevision = instance?.dbRevision ?? -1;
  return frame;
}

export function createWorkers({
  tier,
  slots,
  materialise,
  clock,
  log,
  pool: target,
}: WorkersOptions): Workers {
  const workers = new Map<string, Worker>();
  const busy = new Set<Worker>();
  /** Processes that have not ended yet, used or not. */
  const alive = new Set<Child>();
  let closed = false;

  const pool = createPool(
    () => {
      const slot = slots.create();
      const child = startChild(tier, slot, clock);
      alive.add(child);
      child.ended.then(() => {
        alive.delete(child);
        slots.remove(slot);
      });
      return { child, slot };
    },
    target,
    log,
  );

  /** Memory that V8's own limit does not see: buffers, WebAssembly, native code. */
  function checkMemory({ child }: Worker): void {
    const bytes = child.residentBytes();
    if (bytes !== undefined && bytes > BASE_BYTES + LIMITS.memoryMb * 1024 * 1024)
      child.kill('memory', `The code used more memory than ${LIMITS.memoryMb} MB.`);
  }

  let samples = 0;
  const sampler = setInterval(() => {
    samples += 1;
    for (const worker of busy) checkMemory(worker);
    const now = performance.now();
    for (const [key, worker] of workers) {
      if (worker.busy > 0) continue;
      if (now - worker.usedAt > IDLE_MS) drop(key, worker);
      // What code has begun goes on after the end of its run.
      else if (samples % IDLE_SAMPLES === 0) checkMemory(worker);
    }
  }, SAMPLE_MS);
  sampler.unref();

  function drop(key: string, worker: Worker): void {
    if (workers.get(key) === worker) workers.delete(key);
    worker.child.kill('aborted', 'The process was retired.');
  }

  /** Makes room for one more: the idle process that was not used for the longest time goes. */
  function evict(): void {
    let idle = 0;
    let oldest: [string, Worker] | undefined;
    for (const entry of workers) {
      if (entry[1].busy > 0) continue;
      idle += 1;
      if (!oldest || entry[1].usedAt < oldest[1].usedAt) oldest = entry;
    }
    if (oldest && idle > MOST_IDLE) drop(...oldest);
  }

  return {
    get: (key) => workers.get(key),

    async start({ process: key, bundle, bundleId, owner }) {
      if (closed) throw new Error('the sandbox is closed');
      const old = key === undefined ? undefined : workers.get(key);
      if (old) drop(key!, old);
      const [files, { child, slot }] = await Promise.all([
        materialise(bundleId, bundle, owner?.id ?? ''),
        pool.take(),
      ]);
      try {
        await slots.fill(slot, files, tier.visiblePackages);
        if (closed) throw new Error('the sandbox is closed');
      } catch (error) {
        child.kill('aborted', 'It could not be given its code.');
        throw error;
      }
      const worker: Worker = {
        child,
        bundleId,
        calls: 0,
        busy: 0,
        usedAt: performance.now(),
        last: Promise.resolve(),
        retired: false,
        load: { path: `${tier.visible(slot).app}/${files.name}`, format: bundle.format },
        started: false,
        dbRevision: -1,
      };
      if (key !== undefined) {
        workers.set(key, worker);
        child.ended.then(() => workers.get(key) === worker && workers.delete(key));
        evict();
      }
      return worker;
    },

    call(worker, task, host, options) {
      worker.busy += 1;
      worker.calls += 1;
      busy.add(worker);
      const counted: Host = {
        ...host,
        dbSet(key, json) {
          const revision = host.dbSet(key, json);
          // When only this process changed the map, it knows it as it is.
          worker.dbRevision = revision === worker.dbRevision + 1 ? revision : -1;
          return revision;
        },
      };
      const made = worker.child.call(frameOf(worker, task), counted, options).finally(() => {
        worker.busy -= 1;
        worker.usedAt = performance.now();
        if (worker.busy > 0) return;
        busy.delete(worker);
        if (task.process === undefined || worker.retired || closed) {
          worker.child.kill('aborted', 'The process was used once.');
        }
      });
      worker.last = made;
      return made;
    },

    retire(prefix, atOnce) {
      for (const [key, worker] of workers) {
        if (!key.startsWith(prefix)) continue;
        if (worker.busy === 0 || atOnce) drop(key, worker);
        else worker.retired = true;
      }
    },

    stats: () => ({
      processes: workers.size + pool.size,
      idle: [...workers.values()].filter((worker) => worker.busy === 0).length,
      busy: busy.size,
      pool: pool.size,
    }),

    async close() {
      closed = true;
      clearInterval(sampler);
      pool.close();
      workers.clear();
      // One may have been on its way when this began.
      while (alive.size > 0) {
        for (const child of alive) child.kill('aborted', 'The platform is stopping.');
        await Promise.all([...alive].map(({ ended }) => ended));
      }
    },
  };
}
