import { setTimeout as pause } from 'node:timers/promises';

export interface Deadline {
  /** Give up after this many milliseconds; default 10 s. */
  ms?: number;
  /** Interval of the checks in milliseconds; default 10. */
  every?: number;
}

/**
 * Polls `look` until it neither throws nor returns `false`, and returns its value. If there is an event to wait for,
 * wait for the event instead.
 * @throws the last error of `look`, or an error if it was `false`
 */
export async function eventually<T>(
  look: () => T | Promise<T>,
  { ms = 10_000, every = 10 }: Deadline = {},
): Promise<Exclude<T, false>> {
  const end = performance.now() + ms;
  for (;;) {
    let failure: unknown;
    try {
      const found = await look();
      if (found !== false) return found as Exclude<T, false>;
      failure = new Error(`The condition was still false after ${ms} ms`);
    } catch (error) {
      failure = error;
    }
    if (performance.now() >= end) throw failure;
    await pause(every);
  }
}
