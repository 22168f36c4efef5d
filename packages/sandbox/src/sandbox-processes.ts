import { availableParallelism } from 'node:os';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { createBusyChecks } from './busy-checks.ts';
import { createCallGaps } from './call-gaps.ts';
import type { Child } from './child.ts';
import { createChild } from './child-process.ts';
import type { Egress } from './egress/relay-process.ts';
import { createFrameBlocks } from './frame-blocks.ts';
import { createFrameParser } from './frame-parser.ts';
import { createIdleProcesses } from './idle-processes.ts';
import { createOverloadCheck } from './overload.ts';
import type { BundleFiles } from './packages/bundle-files.ts';
import { createPool, sandboxClosed, type UnusedProcess } from './pool.ts';
import type { CallOptions, Executor, Host, Result, Task } from './port.ts';
import type { Files, ProcessDirectories } from './process-directories.ts';
import { createProcessMemory, defaultMemoryBytes, outOfMemory } from './process-memory.ts';
import { createProcessorShares } from './processor-shares.ts';
import { createRestartDelays } from './restart-delays.ts';
import { createFrame, createProcess, followChanges, type SandboxProcess } from './sandbox-process.ts';
import type { Spawner } from './spawner/spawner.ts';
import type { Tier } from './tiers/tier.ts';
import { createTurns, inTurnsOf } from './turns.ts';

export interface SandboxProcessesOptions {
  tier: Tier;
  spawner: Spawner;
  directories: ProcessDirectories;
  egress: Egress;
  bundleFiles: BundleFiles;
  clock: Clock;
  log: Log;
  /** Number of processes that are started in advance. */
  pool: number;
  /** Memory that all processes may hold together; default: half the memory of the machine or container. */
  memoryBytes?: number;
  /** Default 50; see IdleOptions in idle-processes.ts. */
  freezeAfterMs?: number;
  /** Number of processors that owners share; default: those of the machine or container. */
  processors?: number;
}

/** Sandbox processes: those with a process key are kept between calls, others end after their call. */
export interface SandboxProcesses extends Pick<Executor, 'onIdleUsage' | 'stats'> {
  /** The process of this key; it may have other code, or be unusable: see `canExecute`. */
  get(key: string): SandboxProcess | undefined;
  /**
   * Starts a process for the task and ends the previous one of its key. The caller makes at most one start per key at a
   * time, and calls the process at once: until then it counts neither as idle nor as busy.
   */
  start(task: Task): Promise<SandboxProcess>;
  /** @param done gets the result; undefined if the process ended before it began to execute the call */
  call(
    proc: SandboxProcess,
    task: Task,
    host: Host,
    options: CallOptions,
    done: (result: Result | undefined) => void,
  ): void;
  /** See Executor. */
  retire(keyPrefix: string, atOnce: boolean): void;
  close(): Promise<void>;
}

const MAX_IDLE_MS = 10 * 60_000;
const EXPIRY_INTERVAL_MS = 5000;
const FREEZE_AFTER_MS = 50;
const ENDED = 'The platform ended the process.';

export function createSandboxProcesses({
  tier,
  spawner,
  directories,
  egress,
  bundleFiles,
  clock,
  log,
  pool: target,
  memoryBytes = defaultMemoryBytes(),
  freezeAfterMs = FREEZE_AFTER_MS,
  processors = availableParallelism(),
}: SandboxProcessesOptions): SandboxProcesses {
  const processes = new Map<string, SandboxProcess>();
  const busy = new Set<SandboxProcess>();
  /** All processes that have not ended, including those in the pool. */
  const alive = new Set<Child>();
  const starting = new Set<Promise<UnusedProcess>>();
  /** Of the children with code; the others are in the pool. */
  const byChild = new WeakMap<Child, SandboxProcess>();
  let closed = false;
  let chargeIdle: Parameters<Executor['onIdleUsage']>[0] = () => {};

  const gaps = createCallGaps();
  const turns = createTurns();
  const parser = createFrameParser();
  const blocks = createFrameBlocks();
  const shares = createProcessorShares({ processors });
  const restarts = createRestartDelays({ isShared: () => shares.areShared, sleep: clock.sleep });
  const idle = createIdleProcesses({
    freezeAfterMs,
    onFrozen(child) {
      shares.remove(child);
      // The last check until its next call.
      void child.check().then(memory.fit);
    },
  });
  const memory = createProcessMemory<Child, SandboxProcess>({
    limitBytes: memoryBytes,
    children: alive,
    processOf: (child) => byChild.get(child),
    end(proc) {
      if (proc.busy === 0) return end(proc);
      log.warn({ owner_id: proc.ownerId }, 'sandbox.memory_exceeded');
      proc.child.kill('memory', outOfMemory(memoryBytes));
    },
  });

  /** Starts a process in a new process directory. */
  async function startUnused(preload: boolean): Promise<UnusedProcess> {
    const directory = directories.create();
    egress.open(directory);
    const release = () => {
      egress.close(directory);
      directories.remove(directory);
    };
    let child: Child;
    try {
      const spawned = await spawner.spawn(tier.command(directory, { preload }));
      child = createChild({ spawned, tier, directory, clock, turns, parser, blocks });
    } catch (error) {
      release();
      throw error;
    }
    alive.add(child);
    child.ready.then(
      () => {
        if (!byChild.has(child)) idle.add(child);
      },
      // The pool reports a failed start.
      () => {},
    );
    child.ended.then(({ isFault, ...usage }) => {
      alive.delete(child);
      idle.remove(child);
      shares.remove(child);
      release();
      const { ownerId = '', key } = byChild.get(child) ?? {};
      memory.serve();
      if (isFault && key !== undefined) restarts.failed(ownerId, key);
      if (ownerId !== '' && usage.cpuMs + usage.endedProcesses > 0) chargeIdle(ownerId, usage);
    });
    return { child, directory };
  }

  const pool = createPool({
    ...{ target, processors, clock, log },
    isOverloaded: createOverloadCheck(),
    maxPerOwner: shares.perOwner,
    start(preload) {
      const starts = startUnused(preload).finally(() => starting.delete(starts));
      starting.add(starts);
      return starts;
    },
  });

  const checks = createBusyChecks(busy, memory.fit);

  const expiry = setInterval(() => {
    const now = performance.now();
    for (const proc of processes.values()) {
      if (proc.busy === 0 && now - proc.usedAt > MAX_IDLE_MS) end(proc);
    }
    memory.fit();
  }, EXPIRY_INTERVAL_MS).unref();

  function end(proc: SandboxProcess): void {
    if (proc.key !== undefined && processes.get(proc.key) === proc) processes.delete(proc.key);
    proc.child.kill('aborted', ENDED);
  }

  /** Called when no call of the process is left. */
  function becomeIdle(proc: SandboxProcess): void {
    busy.delete(proc);
    if (proc.key !== undefined) gaps.end(proc.key);
    if (proc.key === undefined || proc.retired || closed) proc.child.kill('aborted', ENDED);
    else if (proc.child.usable) idle.add(proc.child);
    memory.serve();
    for (const resolve of proc.whenIdle.splice(0)) resolve();
  }

  /** Takes a process from the pool and places the code of the task in it. */
  async function startWithCode(task: Task): Promise<SandboxProcess> {
    const { processKey: key, readBundle, bundleId, owner } = task;
    // Code of the platform has no owner.
    const ownerId = owner?.id ?? '';
    const writing = bundleFiles(bundleId, readBundle, ownerId);
    // Awaited below: a failure must end the process that is being taken.
    writing.catch(() => {});
    const { child, directory } = await pool.take(ownerId);
    egress.assign(directory, key ?? bundleId, owner);
    let files: Files;
    try {
      files = await writing;
      const sharing = { id: ownerId, inTurns: inTurnsOf(turns, ownerId) };
      await directories.fill(directory, files, tier.visiblePackages, sharing);
      if (closed) throw sandboxClosed();
    } catch (error) {
      child.kill('aborted', 'The code could not be placed in the sandbox.');
      throw error;
    }
    const load = { path: `${tier.visible(directory).app}/${files.name}`, format: files.format };
    const proc = createProcess({ child, directory, key, bundleId, ownerId }, load);
    byChild.set(child, proc);
    child.owner = owner?.id ?? bundleId;
    idle.remove(child);
    if (key !== undefined) {
      processes.set(key, proc);
      child.ended.then(() => processes.get(key) === proc && processes.delete(key));
    }
    return proc;
  }

  return {
    get: (key) => processes.get(key),

    async start(task) {
      if (closed) throw sandboxClosed();
      const old = task.processKey === undefined ? undefined : processes.get(task.processKey);
      if (old) end(old);
      if (task.processKey !== undefined) await restarts.wait(task.processKey);
      const release = await memory.admit(task.owner?.id ?? '');
      try {
        return await startWithCode(task);
      } finally {
        release();
        memory.fit();
      }
    },

    call(proc, task, host, options, done) {
      if (proc.busy === 0) {
        idle.remove(proc.child);
        shares.add(proc.child);
        if (proc.key !== undefined) proc.gapMs = gaps.begin(proc.key);
      }
      if (task.owner) egress.allowNetworks(task.owner);
      proc.busy += 1;
      proc.calls += 1;
      busy.add(proc);
      checks.start();
      proc.child.call(createFrame(proc, task), followChanges(proc, host), options, (result) => {
        egress.endRun(proc.directory);
        proc.busy -= 1;
        proc.usedAt = performance.now();
        if (proc.busy === 0) becomeIdle(proc);
        done(result);
      });
    },

    retire(prefix, atOnce) {
      for (const [key, proc] of processes) {
        if (!key.startsWith(prefix)) continue;
        if (proc.busy === 0 || atOnce) end(proc);
        else proc.retired = true;
      }
    },

    onIdleUsage(listener) {
      chargeIdle = listener;
    },

    stats: () => ({
      processes: alive.size,
      idle: [...processes.values()].filter((proc) => proc.busy === 0).length,
      busy: busy.size,
      pool: pool.size,
    }),

    async close() {
      closed = true;
      checks.close();
      clearInterval(expiry);
      idle.close();
      shares.close();
      memory.close();
      restarts.close();
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
