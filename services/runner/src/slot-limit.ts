import { performance } from 'node:perf_hooks';
import { PERMIT_COUNTS } from './run-permits.ts';

/** How many slots for runs an owner may hold while it causes most of the work. */
export interface SlotLimit {
  /** Adapts the limit to the turns of the main thread since the last time. @param mostHeld the most slots that one owner holds */
  adapt(mostHeld: () => number): void;
  /** MIN_SLOTS to MAX_SLOTS. */
  readonly current: number;
}

/** Turns of the main thread since the start of the process. */
interface Turns {
  count: number;
  /** Their duration in ms, waits for a processor included. */
  busyMs: number;
}

/**
 * Mean duration of a turn beyond which the limit falls. The work of a run is a chain of about twelve reads and writes, each
 * of which waits for a turn.
 */
const MAX_TURN_MS = 50;
const INTERVAL_MS = 250;
export const MIN_SLOTS = 4;
/** No limit: as many as run permits. */
export const MAX_SLOTS = PERMIT_COUNTS.runs;
const DECREASE = 0.7;
const INCREASE = 1.1;

const measureTurns = (): Turns => ({
  count: performance.nodeTiming.uvMetricsInfo.loopCount,
  busyMs: performance.eventLoopUtilization().active,
});

/** @param now monotonic ms */
export function createSlotLimit(
  now: () => number = () => performance.now(),
  turns: () => Turns = measureTurns,
): SlotLimit {
  let last = { ...turns(), at: now() };
  let limit = MAX_SLOTS;
  /** One long turn, such as a garbage collection, is no overload. */
  let isLong = false;

  return {
    adapt(mostHeld) {
      if (now() - last.at < INTERVAL_MS) return;
      const next = { ...turns(), at: now() };
      const wasLong = isLong;
      isLong = (next.busyMs - last.busyMs) / Math.max(1, next.count - last.count) > MAX_TURN_MS;
      const intervals = Math.floor((next.at - last.at) / INTERVAL_MS);
      last = next;
      if (!isLong) limit = Math.min(MAX_SLOTS, Math.ceil(limit * INCREASE ** intervals));
      else if (wasLong) limit = Math.max(MIN_SLOTS, Math.floor(Math.min(limit, mostHeld()) * DECREASE));
    },
    get current() {
      return limit;
    },
  };
}
