import { setTimeout as pause, setImmediate as turn } from 'node:timers/promises';
import type { Child } from './child.ts';

/** Regular checks of the resource limits of processes that execute calls. */
export interface BusyChecks {
  /** To be called when a process has become busy. */
  start(): void;
  close(): void;
}

const PAUSE_MS = 100;
/** Each reads files of the kernel, which takes some 20 µs: all processes together would delay other work by 10 ms. */
const CHECKS_PER_TURN = 8;

/**
 * Runs only while there are busy processes.
 * @param onChecked called after each round
 */
export function createBusyChecks(
  busy: ReadonlySet<{ child: Pick<Child, 'check'> }>,
  onChecked: () => void,
): BusyChecks {
  let isRunning = false;
  let closed = false;

  async function round(): Promise<void> {
    let checks = 0;
    // A copy: a process that ends its call and gets another one moves to the end of the set.
    for (const one of [...busy]) {
      if (closed) return;
      if (!busy.has(one)) continue;
      void one.child.check(true);
      checks += 1;
      if (checks % CHECKS_PER_TURN === 0) await turn();
    }
    onChecked();
  }

  async function run(): Promise<void> {
    while (busy.size > 0 && !closed) {
      await pause(PAUSE_MS, undefined, { ref: false });
      await round();
    }
    isRunning = false;
  }

  return {
    start() {
      if (isRunning) return;
      isRunning = true;
      void run();
    },
    close() {
      closed = true;
    },
  };
}
