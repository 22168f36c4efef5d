import { setImmediate as turn } from 'node:timers/promises';
import type { Clock } from '@wellspring/core/clock';
import { eventually } from './eventually.ts';

export interface FakeClock extends Clock {
  /**
   * Advances the time. Sleepers wake in order, at their time, and may sleep several times within one advance. It does
   * not wait for I/O: use {@link asleep}.
   * @throws Error for an endless loop of sleeps of 0 ms
   */
  advance(ms: number): Promise<void>;
  /** Resolves when at least `count` sleepers wait (default 1). */
  asleep(count?: number): Promise<void>;
  /** When the sleepers wake, epoch ms, soonest first. */
  wakings(): number[];
}

const MAX_WAKES_PER_INSTANT = 10_000;

/** A clock that only `advance` moves. @param start epoch ms */
export function createFakeClock(start = 1_700_000_000_000): FakeClock {
  let now = start;
  const sleepers = new Set<{ at: number; wake: () => void }>();
  const soonest = () => [...sleepers].sort((a, b) => a.at - b.at)[0];

  return {
    now: () => now,
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const wake = () => {
          sleepers.delete(sleeper);
          signal?.removeEventListener('abort', wake);
          resolve();
        };
        const sleeper = { at: now + Math.max(0, ms), wake };
        sleepers.add(sleeper);
        signal?.addEventListener('abort', wake, { once: true });
      }),
    async advance(ms) {
      const end = now + ms;
      await turn();
      let idle = 0;
      for (let next = soonest(); next && next.at <= end; next = soonest()) {
        idle = next.at > now ? 0 : idle + 1;
        if (idle > MAX_WAKES_PER_INSTANT) throw new Error('A task sleeps without end, and no time passes');
        now = Math.max(now, next.at);
        next.wake();
        await turn();
      }
      now = end;
    },
    asleep: async (count = 1) => {
      await eventually(() => sleepers.size >= count);
    },
    wakings: () => [...sleepers].map(({ at }) => at).sort((a, b) => a - b),
  };
}
