import type { Clock } from '@wellspring/core/clock';
import { FIRST_ATTEMPT_TIMEOUT_MS } from './lease.ts';

/** Calls `tooLong` after FIRST_ATTEMPT_TIMEOUT_MS, unless the returned function was called before. */
export type Patience = (tooLong: () => void) => () => void;

/** One timer for all: the time is constant, so they end in the order in which they began. */
export function createPatience(clock: Clock): Patience {
  const waiting: { until: number; tooLong: (() => void) | undefined }[] = [];
  let watching = false;

  async function watch(): Promise<void> {
    watching = true;
    for (let first = waiting[0]; first; first = waiting[0]) {
      const left = first.until - clock.now();
      if (first.tooLong && left > 0) {
        await clock.sleep(left);
        continue;
      }
      waiting.shift();
      first.tooLong?.();
    }
    watching = false;
  }

  return (tooLong) => {
    const one = {
      until: clock.now() + FIRST_ATTEMPT_TIMEOUT_MS,
      tooLong: tooLong as (() => void) | undefined,
    };
    waiting.push(one);
    if (!watching) void watch();
    return () => {
      one.tooLong = undefined;
    };
  };
}
