import { randomInt } from 'node:crypto';

/** The queues of those who serve an address, as they have told it. */
export interface Directory {
  /** One of them; undefined: nobody has answered yet, and another look is worth while in a moment. */
  find(address: string): string | undefined;
  /** Somebody has answered. */
  found(address: string, queue: string): void;
  /** Nobody is at that queue any more. */
  gone(address: string, queue: string): void;
}

/** Those that came since are found after this time, and those that do not answer any more are left out after two. */
const FRESH_MS = 5_000;
const UNKNOWN_MS = 50;
/** Members come and go. */
const MOST_ADDRESSES = 10_000;

interface Entry {
  /** With the performance.now() of their last answers. */
  queues: Map<string, number>;
  /** performance.now(). */
  soughtAt: number;
}

/** @param seek asks all who serve an address to answer */
export function createDirectory(seek: (address: string) => void): Directory {
  const known = new Map<string, Entry>();
  return {
    find(address) {
      const entry = known.get(address) ?? { queues: new Map(), soughtAt: Number.NEGATIVE_INFINITY };
      if (known.size > MOST_ADDRESSES) known.clear();
      known.set(address, entry);
      const { queues } = entry;
      const now = performance.now();
      if (now - entry.soughtAt >= (queues.size > 0 ? FRESH_MS : UNKNOWN_MS)) {
        for (const [queue, answeredAt] of queues) if (answeredAt < entry.soughtAt) queues.delete(queue);
        entry.soughtAt = now;
        seek(address);
      }
      return queues.size > 0 ? [...queues.keys()][randomInt(queues.size)] : undefined;
    },
    found(address, queue) {
      known.get(address)?.queues.set(queue, performance.now());
    },
    gone(address, queue) {
      known.get(address)?.queues.delete(queue);
    },
  };
}
