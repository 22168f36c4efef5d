import type { Child } from './child.ts';

/**
 * Processes without a call. Soon after its last call a process is frozen, so that code which continues after its run
 * uses no processor time and no more memory.
 */
export interface IdleProcesses {
  /** The last call of the process has ended. */
  add(child: Child): void;
  /** The process has a new call, or has ended. */
  remove(child: Child): void;
  close(): void;
}

export interface IdleOptions {
  /** Time from the end of the last call until the process is frozen; longer than the gaps within a series of calls. */
  freezeAfterMs: number;
  /** Called once for each added process, when it is frozen: it does not change any more. */
  onFrozen(child: Child): void;
}

const SWEEP_MS = 25;
/** Interval at which the resource limits of a process that cannot be frozen are checked. */
const CHECK_MS = 300;

/** Uses one timer, which runs only while a process is not frozen. */
export function createIdleProcesses({ freezeAfterMs, onFrozen }: IdleOptions): IdleProcesses {
  const waiting = new Map<Child, { since: number; checkedAt: number }>();
  let timer: NodeJS.Timeout | undefined;

  function sweep(): void {
    const now = performance.now();
    for (const [child, times] of waiting) {
      if (now - times.since >= freezeAfterMs && child.freeze()) {
        waiting.delete(child);
        onFrozen(child);
      } else if (now - times.checkedAt >= CHECK_MS) {
        times.checkedAt = now;
        void child.check();
        // One that is never frozen is not sampled for ever.
      } else if (now - times.since < CHECK_MS) child.sample();
    }
    if (waiting.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  }

  return {
    add(child) {
      const now = performance.now();
      waiting.set(child, { since: now, checkedAt: now });
      timer ??= setInterval(sweep, SWEEP_MS).unref();
    },
    remove(child) {
      waiting.delete(child);
    },
    close() {
      clearInterval(timer);
      waiting.clear();
    },
  };
}
