import { setTimeout as pause } from 'node:timers/promises';

/** Injected wherever code waits or reads the time, so that tests control it. */
export interface Clock {
  /** Epoch milliseconds. */
  now(): number;
  /** Resolves after `ms` milliseconds, or at once when the signal is aborted. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) => pause(ms, undefined, { signal }).catch(() => {}),
};
