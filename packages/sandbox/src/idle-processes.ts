import type { Child } from './child-process.ts';

/**
 * Processes without a call. Soon after its last call a process is frozen: whatever its code goes on with costs no
 * processor time, and what it holds does not grow any more.
 */
export interface IdleProcesses {
  /** Its last call has ended. */
  add(child: Child): void;
  /** It has a call again, or is gone. */
  remove(child: Child): void;
  close(): void;
}

export interface IdleOptions {
  /** From the end of its last call to when a process is frozen. Calls in quick succession do without. */
  freezeAfterMs: number;
  /** Told once for each process that was added, when what it holds will not change any more. */
  onFrozen(child: Child): void;
}

const SWEEP_MS = 25;
/** A process that cannot be frozen is looked at from time to time. */
const CHECK_MS = 300;

/** One timer for all of them, which runs only while some wait: frozen processes cost nothing. */
export function createIdleProcesses({ freezeAfterMs, onFrozen }: IdleOptions): IdleProcesses {
  const waiting = new Map<Child, { since: number; checkedAt: number }>();
  let timer: NodeJS.Timeout | undefined;

  function sweep(): void {
    const now = performance.now();
    for (const [child, times] of waiting) {
      if (now - times.since >= freezeAfterMs && child.freeze()) {
        waiting.delete(child);
        // It is looked at once more: what it holds now, it holds until its next call.
        void child.check();
        onFrozen(child);
      } else if (now - times.checkedAt >= CHECK_MS) {
        times.checkedAt = now;
        void child.check();
      }
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
