import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from './clock.ts';

/** The sleep of a loop that looks for work. */
export interface Sleeper {
  /** Ends the sleep, or the next one: there may be work that the loop has not seen. */
  wake(): void;
  /** For at most `ms` milliseconds, or until the signal is aborted. Other work of the process has a turn in any case. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

export function createSleeper(clock: Clock): Sleeper {
  let woken = new AbortController();
  return {
    wake: () => woken.abort(),
    async sleep(ms, signal) {
      if (ms > 0 && !woken.signal.aborted) await clock.sleep(ms, AbortSignal.any([signal, woken.signal]));
      else await nextTurn();
      woken = new AbortController();
    },
  };
}
