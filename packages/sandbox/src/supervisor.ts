import { totalmem } from 'node:os';
import { LIMITS } from '@wellspring/contract/limits';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { type Child, startChild } from './child-process.ts';
import type { Materialise } from './packages/materialise.ts';
import { createPool } from './pool.ts';
import type { Executor, Host, Result, Task } from './port.ts';
import type { CallFrame } from './protocol.ts';
import type { Slots } from './slots.ts';
import type { Tier } from './tiers/tier.ts';

export interface SupervisorOptions {
  tier: Tier;
  slots: Slots;
  materialise: Materialise;
  clock: Clock;
  log: Log;
  /** Processes kept ready ahead of their use. */
  pool: number;
}

/** A process with the code of one deployment. */
interface Worker {
  child: Child;
  slot: string;
  bundleId: string;
  calls: number;
  /** Calls under way or waiting in it. */
  busy: number;
  /** performance.now() of its last use. */
  usedAt: number;
  /** Settles with the newest call. Never rejects. */
  last: Promise<unknown>;
  /** It ends with the call that is under way. */
  retired: boolean;
  load: CallFrame['load'] | undefined;
  started: boolean;
  dbRevision: number;
}

/** A process is given up after so many calls, so that what leaks goes. */
const MOST_CALLS = 100_000;
const IDLE_MS = 10 * 60_000;
const SAMPLE_MS = 200;
/** What an empty process holds, about. */
const BASE_BYTES = 80 * 1024 * 1024;
/** Idle processes: half of the memory at what one holds, about. */
const MOST_IDLE = Math.max(8, Math.floor(totalmem() / 2 / (64 * 1024 * 1024)));

export function createSupervisor({
  tier,
  slots,
  materialise,
  clock,
  log,
  pool: target,
}: SupervisorOptions): Executor {
  const workers = new Map<string, Worker>();
  const turns = new Map<string, Promise<unknown>>();
  const busy = new Set<Worker>();
  let closed = false;

  const pool = createPool(
    () => {
      const slot = slots.create();
      const child = startChild(tier, slot, clock);
      child.ended.then(() => slots.remove(slot));
      return { child, slot };
    },
    target,
    log,
  );

  /** Memory that V8's own limit does not see: buffers, WebAssembly, native code. */
  const sampler = setInterval(() => {
    for (const { child } of busy) {
      const bytes = child.residentBytes();
      if (bytes !== undefined && bytes > BASE_BYTES + LIMITS.memoryMb * 1024 * 1024) {
        child.kill('memory', `The code used more memory than ${LIMITS.memoryMb} MB.`);
      }
    }
    const now = performance.now();
    for (const [key, worker] of workers)
      if (worker.busy === 0 && now - worker.usedAt > IDLE_MS) drop(key, worker);
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

  async function acquire({ process: key, bundle, bundleId }: Task): Promise<Worker> {
    const warm = key === undefined ? undefined : workers.get(key);
    if (warm?.child.usable && warm.bundleId === bundleId && warm.calls < MOST_CALLS) return warm;
    if (warm) drop(key!, warm);
    const [files, { child, slot }] = await Promise.all([materialise(bundleId, bundle), pool.take()]);
    await slots.fill(slot, files, files.nodeModules);
    const worker: Worker = {
      child,
      slot,
      bundleId,
      calls: 0,
      busy: 0,
      usedAt: performance.now(),
      last: Promise.resolve(),
      retired: false,
      load: { path: `${tier.visibleSlot(slot)}/${files.name}`, format: bundle.format },
      started: false,
      dbRevision: -1,
    };
    if (key !== undefined) {
      workers.set(key, worker);
      child.ended.then(() => workers.get(key) === worker && workers.delete(key));
      evict();
    }
    return worker;
  }

  /** Somebody else changed the map of `$service.db`. */
  const isOutdated = (worker: Worker, { instance }: Task) =>
    worker.started && instance !== undefined && instance.dbRevision !== worker.dbRevision;

  function frameOf(worker: Worker, { instance, call }: Task): CallFrame {
    const frame: CallFrame = { call };
    if (worker.load) frame.load = worker.load;
    if (instance && !worker.started) frame.instance = instance;
    else if (instance && instance.dbRevision !== worker.dbRevision) frame.db = instance.db;
    worker.load = undefined;
    worker.started ||= instance !== undefined;
    worker.dbRevision = instance?.dbRevision ?? -1;
    return frame;
  }

  /** Hands a call to a process; resolves when it is on its way, with what will come of it. */
  async function begin(
    task: Task,
    host: Host,
    options: { timeoutMs: number; signal?: AbortSignal },
  ): Promise<{ result: Promise<Result | undefined> }> {
    let worker = await acquire(task);
    while (worker.busy > 0 && isOutdated(worker, task)) {
      // The map that is to be sent must not undo what the calls under way have set meanwhile.
      await worker.last;
      worker = await acquire(task);
    }
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
    const made = worker.child.call(frameOf(worker, task), counted, options);
    worker.last = made;
    const result = made.finally(() => {
      worker.busy -= 1;
      worker.usedAt = performance.now();
      if (worker.busy > 0) return;
      busy.delete(worker);
      if (task.process === undefined || worker.retired || closed) {
        worker.child.kill('aborted', 'The process was used once.');
      }
    });
    return { result };
  }

  /** Calls of one process key are begun in the order in which they were made. */
  function inTurn(key: string, work: () => ReturnType<typeof begin>): ReturnType<typeof begin> {
    const turn = (turns.get(key) ?? Promise.resolve()).then(work);
    const settled = turn.catch(() => {});
    turns.set(key, settled);
    settled.then(() => turns.get(key) === settled && turns.delete(key));
    return turn;
  }

  return {
    tier: tier.name,
    async execute(task, host, options) {
      const { process: key } = task;
      for (;;) {
        const work = () => begin(task, host, options);
        const { result } = await (key === undefined ? work() : inTurn(key, work));
        const ended = await result;
        // The process ended before this call was begun: another one takes it.
        if (ended) return ended;
        if (closed) throw new Error('the sandbox is closed');
      }
    },
    retire(prefix, { atOnce = false } = {}) {
      for (const [key, worker] of workers) {
        if (!key.startsWith(prefix)) continue;
        if (worker.busy === 0 || atOnce) {
          drop(key, worker);
        } else {
          worker.retired = true;
          workers.delete(key);
        }
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
      const ending = [...workers.values(), ...busy].map(({ child }) => child);
      for (const [key, worker] of workers) drop(key, worker);
      for (const child of ending) child.kill('aborted', 'The platform is stopping.');
      await Promise.all(ending.map(({ ended }) => ended));
    },
  };
}
