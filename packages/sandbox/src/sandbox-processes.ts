import { totalmem } from 'node:os';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { type Child, createChild } from './child-process.ts';
import type { Egress } from './egress/relay-process.ts';
import { createFrameParser } from './frame-parser.ts';
import { createIdleProcesses } from './idle-processes.ts';
import type { Materialise } from './packages/materialise.ts';
import { createPool, type Fresh } from './pool.ts';
import type { Host, Result, Task } from './port.ts';
import type { CallFrame } from './protocol.ts';
import type { Slot, Slots } from './slots.ts';
import type { Spawner } from './spawner/spawner.ts';
import type { Tier } from './tiers/tier.ts';
import { createTurns } from './turns.ts';

export interface SandboxProcessesOptions {
  tier: Tier;
  spawner: Spawner;
  slots: Slots;
  egress: Egress;
  materialise: Materialise;
  clock: Clock;
  log: Log;
  /** Processes kept ready ahead of their use. */
  pool: number;
  /** For the memory of processes that wait for their next call; default: half of the machine's or container's. */
  idleMemoryBytes?: number;
  /** See IdleOptions. */
  freezeAfterMs?: number;
}

/** A process with the code of one deployment. */
export interface SandboxProcess {
  readonly child: Child;
  readonly slot: Slot;
  readonly bundleId: string;
  readonly ownerId: string;
  calls: number;
  /** Calls under way or waiting in it. */
  busy: number;
  /** performance.now() of its last use. */
  usedAt: number;
  /** Called when no call is under way or waiting any more. */
  whenIdle: (() => void)[];
  /** It ends with the calls that it has. */
  retired: boolean;
  load: CallFrame['load'] | undefined;
  started: boolean;
  dbRevision: number;
  /** Memory of its own, as of its last idle moment; an estimate until then. */
  bytes: number;
}

/** The processes at work and those that wait for more, by process key. */
export interface SandboxProcesses {
  /** The process of this key, whatever it runs. */
  get(key: string): SandboxProcess | undefined;
  /** A new process for the task, in the place of the one that its key had. */
  start(task: Task): Promise<SandboxProcess>;
  /** @param done gets what came of it; undefined when the process ended before it began with it */
  call(
    proc: SandboxProcess,
    task: Task,
    host: Host,
    options: { timeoutMs: number; signal?: AbortSignal },
    done: (result: Result | undefined) => void,
  ): void;
  retire(keyPrefix: string, atOnce: boolean): void;
  stats(): { processes: number; idle: number; busy: number; pool: number };
  close(): Promise<void>;
}

/** A process is replaced after so many calls, so that what leaks goes. */
const MAX_CALLS = 100_000;
const MAX_IDLE_MS = 10 * 60_000;
const SAMPLE_INTERVAL_MS = 100;
const EXPIRY_INTERVAL_MS = 5000;
const FREEZE_AFTER_MS = 50;
/** About what a process holds that has loaded a source with a package or two. */
const ESTIMATED_BYTES = 24 * 1024 * 1024;
/** Of the machine, or of the container when that may use less. */
const MEMORY_BYTES = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);

/** It can take this task. */
export const suits = (proc: SandboxProcess, { bundleId }: Task): boolean =>
  proc.child.usable && !proc.retired && proc.bundleId === bundleId && proc.calls < MAX_CALLS;

/** Somebody else changed the map of `$service.db`. */
export const isOutdated = (proc: SandboxProcess, { instance }: Task): boolean =>
  proc.started && instance !== undefined && instance.dbRevision !== proc.dbRevision;

function frameOf(proc: SandboxProcess, task: Task): CallFrame {
  const { instance, call } = task;
  const frame: CallFrame = { call };
  if (proc.load) frame.load = proc.load;
  if (instance && !proc.started) frame.instance = instance;
  else if (instance && isOutdated(proc, task)) frame.db = instance.db;
  proc.load = undefined;
  proc.started ||= instance !== undefined;
  proc.dbRevision = instance?.dbRevision ?? -1;
  return frame;
}

export function createSandboxProcesses({
  tier,
  spawner,
  slots,
  egress,
  materialise,
  clock,
  log,
  pool: target,
  idleMemoryBytes = MEMORY_BYTES / 2,
  freezeAfterMs = FREEZE_AFTER_MS,
}: SandboxProcessesOptions): SandboxProcesses {
  const processes = new Map<string, SandboxProcess>();
  const busy = new Set<SandboxProcess>();
  /** Processes that have not ended yet, used or not. */
  const alive = new Set<Child>();
  const starting = new Set<Promise<Fresh>>();
  const byChild = new WeakMap<Child, SandboxProcess>();
  let closed = false;

  const turns = createTurns();
  const parser = createFrameParser();
  const idle = createIdleProcesses({
    freezeAfterMs,
    onFrozen(child) {
      const proc = byChild.get(child);
      if (proc) proc.bytes = child.privateBytes() ?? proc.bytes;
      evict();
    },
  });

  /** A new process in a slot of its own. */
  async function spawn(warm: boolean): Promise<Fresh> {
    const slot = slots.create();
    egress.open(slot);
    const release = () => {
      egress.close(slot);
      slots.remove(slot);
    };
    let child: Child;
    try {
      const started = await spawner.spawn(tier.command(slot, { warm }));
      child = createChild({ started, tier, slot, clock, turns, parser });
    } catch (error) {
      release();
      throw error;
    }
    alive.add(child);
    child.ready.then(
      () => byChild.has(child) || idle.add(child),
      () => {},
    );
    child.ended.then(() => {
      alive.delete(child);
      idle.remove(child);
      release();
    });
    return { child, slot };
  }

  const pool = createPool({
    target,
    clock,
    log,
    spawn(warm) {
      const started = spawn(warm).finally(() => starting.delete(started));
      starting.add(started);
      return started;
    },
  });

  const sampler = setInterval(() => {
    for (const { child } of busy) void child.check();
  }, SAMPLE_INTERVAL_MS).unref();

  const expiry = setInterval(() => {
    const now = performance.now();
    for (const [key, proc] of processes) {
      if (proc.busy === 0 && now - proc.usedAt > MAX_IDLE_MS) drop(key, proc);
    }
  }, EXPIRY_INTERVAL_MS).unref();

  function drop(key: string, proc: SandboxProcess): void {
    if (processes.get(key) === proc) processes.delete(key);
    proc.child.kill('aborted', 'The process was retired.');
  }

  /**
   * While all of them hold more than they may, idle processes go: of the owner whose processes hold the most, the one
   * that was not used for the longest time. So an owner with many sources does not push out those of the others.
   */
  function evict(fresh?: SandboxProcess): void {
    // Those in the pool are no owner's, but their memory is taken.
    let bytes = pool.size * ESTIMATED_BYTES;
    const byOwner = new Map<string, number>();
    const count = (proc: SandboxProcess, change: number) => {
      bytes += change;
      byOwner.set(proc.ownerId, (byOwner.get(proc.ownerId) ?? 0) + change);
    };
    for (const proc of processes.values()) count(proc, proc.bytes);
    while (bytes > idleMemoryBytes) {
      let chosen: [string, SandboxProcess] | undefined;
      for (const entry of processes) {
        const [, proc] = entry;
        if (proc.busy > 0 || proc === fresh) continue;
        const more = chosen ? byOwner.get(proc.ownerId)! - byOwner.get(chosen[1].ownerId)! : 1;
        if (!chosen || more > 0 || (more === 0 && proc.usedAt < chosen[1].usedAt)) chosen = entry;
      }
      if (!chosen) return;
      count(chosen[1], -chosen[1].bytes);
      drop(...chosen);
    }
  }

  /** Its last call has ended. */
  function rest(proc: SandboxProcess, task: Task): void {
    busy.delete(proc);
    if (task.process === undefined || proc.retired || closed) {
      proc.child.kill('aborted', 'The process was used once.');
    } else if (proc.child.usable) idle.add(proc.child);
    for (const resolve of proc.whenIdle.splice(0)) resolve();
  }

  return {
    get: (key) => processes.get(key),

    async start({ process: key, bundle, bundleId, owner }) {
      if (closed) throw new Error('the sandbox is closed');
      const old = key === undefined ? undefined : processes.get(key);
      if (old) drop(key!, old);
      const [files, { child, slot }] = await Promise.all([
        materialise(bundleId, bundle, owner?.id ?? ''),
        pool.take(owner?.id ?? ''),
      ]);
      egress.assign(slot, key ?? bundleId, owner);
      try {
        await slots.fill(slot, files, tier.visiblePackages);
        if (closed) throw new Error('the sandbox is closed');
      } catch (error) {
        child.kill('aborted', 'It could not be given its code.');
        throw error;
      }
      const proc: SandboxProcess = {
        child,
        slot,
        bundleId,
        ownerId: owner?.id ?? '',
        calls: 0,
        busy: 0,
        usedAt: performance.now(),
        whenIdle: [],
        retired: false,
        load: { path: `${tier.visible(slot).app}/${files.name}`, format: bundle.format },
        started: false,
        dbRevision: -1,
        bytes: ESTIMATED_BYTES,
      };
      byChild.set(child, proc);
      child.owner = owner?.id ?? bundleId;
      // It gets its call now.
      idle.remove(child);
      if (key !== undefined) {
        processes.set(key, proc);
        child.ended.then(() => processes.get(key) === proc && processes.delete(key));
        evict(proc);
      }
      return proc;
    },

    call(proc, task, host, options, done) {
      if (proc.busy === 0) idle.remove(proc.child);
      if (task.owner) egress.allowNetworks(task.owner);
      proc.busy += 1;
      proc.calls += 1;
      busy.add(proc);
      const counted: Host = {
        ...host,
        dbSet(key, json) {
          const revision = host.dbSet(key, json);
          // When only this process changed the map, it knows it as it is.
          proc.dbRevision = revision === proc.dbRevision + 1 ? revision : -1;
          return revision;
        },
      };
      proc.child.call(frameOf(proc, task), counted, options, (result) => {
        egress.endRun(proc.slot);
        proc.busy -= 1;
        proc.usedAt = performance.now();
        if (proc.busy === 0) rest(proc, task);
        done(result);
      });
    },

    retire(prefix, atOnce) {
      for (const [key, proc] of processes) {
        if (!key.startsWith(prefix)) continue;
        if (proc.busy === 0 || atOnce) drop(key, proc);
        else proc.retired = true;
      }
    },

    stats: () => ({
      processes: processes.size + pool.size,
      idle: [...processes.values()].filter((proc) => proc.busy === 0).length,
      busy: busy.size,
      pool: pool.size,
    }),

    async close() {
      closed = true;
      clearInterval(sampler);
      clearInterval(expiry);
      idle.close();
      pool.close();
      processes.clear();
      while (alive.size + starting.size > 0) {
        for (const child of alive) child.kill('aborted', 'The platform is stopping.');
        await Promise.allSettled([...alive].map(({ ended }) => ended));
        await Promise.allSettled(starting);
      }
      await parser.close();
    },
  };
}
