import { randomInt } from 'node:crypto';

/** The queues of those who serve an address, as they have told it. */
export interface Directory {
  /** One of them; undefined: nobody has answered yet, and another look is worth while in a moment. */
  find(address: string): string | undefined;
  /** Somebody has answered. */
  found(address: string, queue: string): void;
  /** There is no such queue any more. */
  gone(address: string, queue: string): void;
}

/** Those that came since are found after this time. */
const FRESH_MS = 5_000;
const UNKNOWN_MS = 50;

interface Entry {
  queues: Set<string>;
  /** performance.now(). */
  soughtAt: number;
}

/** @param seek asks all who serve an address to answer */
export function createDirectory(seek: (address: string) => void): Directory {
  const known = new Map<string, Entry>();
  return {
    find(address) {
      const entry = known.get(address) ?? { queues: new Set(), soughtAt: Number.NEGATIVE_INFINITY };
      known.set(address, entry);
      const queues = [...entry.queues];
      const now = performance.now();
      if (now - entry.soughtAt >= (queues.length > 0 ? FRESH_MS : UNKNOWN_MS)) {
        entry.soughtAt = now;
        seek(address);
      }
      return queues.length > 0 ? queues[randomInt(queues.length)] : undefined;
    },
    found(address, queue) {
      known.get(address)?.queues.add(queue);
    },
    gone(address, queue) {
      known.get(address)?.queues.delete(queue);
    },
  };
}
