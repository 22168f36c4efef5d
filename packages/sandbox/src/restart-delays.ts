import type { Clock } from '@wellspring/core/clock';
import { createLru } from '@wellspring/core/lru';

/**
 * Delays of the starts that repeated faults of code make necessary. A start keeps a processor busy for tens of
 * milliseconds, which its owner does not pay for; see ADR 42.
 */
export interface RestartDelays {
  /** A fault of the code ended the process of this key. */
  failed(ownerId: string, key: string): void;
  /** Resolves when the next process of the key may start; without delay while no other owner has calls. */
  wait(key: string): Promise<void>;
  /** Ends all waits. */
  close(): void;
}

export interface RestartDelaysOptions {
  /** Whether several owners have calls. */
  isShared(): boolean;
  sleep: Clock['sleep'];
  /** In ms. */
  now?: () => number;
}

/** Between the delayed starts of an owner. */
export const RESTART_INTERVAL_MS = 1_000;
/** Faults of a key further apart are not repeated ones. */
const REPEATED_WITHIN_MS = 10_000;
const MAX_KEYS = 20_000;

export function createRestartDelays({
  isShared,
  sleep,
  now = () => performance.now(),
}: RestartDelaysOptions): RestartDelays {
  /** Earliest next start by key, since its last fault. */
  const starts = createLru<{ at: number }>(MAX_KEYS);
  /** The last delayed start by owner. */
  const delayed = createLru<{ at: number }>(MAX_KEYS);
  const closing = new AbortController();
  return {
    failed(ownerId, key) {
      let at = now();
      const previous = starts.get(key);
      if (previous && at - previous.at < REPEATED_WITHIN_MS) {
        at = Math.max(at, delayed.get(ownerId)?.at ?? 0) + RESTART_INTERVAL_MS;
        delayed.set(ownerId, { at });
      }
      starts.set(key, { at });
    },
    async wait(key) {
      const ms = (starts.get(key)?.at ?? 0) - now();
      if (ms > 0 && isShared()) await sleep(ms, closing.signal);
    },
    close() {
      closing.abort();
    },
  };
}
