import { setTimeout as pause } from 'node:timers/promises';

export interface Deadline {
  /** Give up after this many milliseconds; default 10 s. */
  ms?: number;
  /** Look again after this many milliseconds; default 10. */
  every?: number;
}

/**
 * Looks until `look` neither throws nor gives `false`, and gives what it gave then. For conditions that nothing
 * announces; where there is an event, wait for the event.
 * @throws the last error of `look`, or one that says it stayed false
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
      failure = new Error(`the condition was still false after ${ms} ms`);
    } catch (error) {
      failure = error;
    }
    if (performance.now() >= end) throw failure;
    await pause(every);
  }
}
