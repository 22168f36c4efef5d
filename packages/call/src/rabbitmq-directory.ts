import { randomInt } from 'node:crypto';

/** The queues of those who serve an address, as they have just told it. */
export interface Directory {
  /** One of them; undefined: they were asked, and nobody has answered yet. */
  find(address: string): string | undefined;
  /** Somebody has answered. */
  found(address: string, queue: string): void;
  /** Nobody is at that queue any more. */
  gone(address: string, queue: string): void;
}

/** They are asked again after this time: what is sent to a node that went since is lost without a word. */
const FRESH_MS = 1_000;
const UNKNOWN_MS = 50;
/** Members come and go. */
const MOST_ADDRESSES = 10_000;

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
      let entry = known.get(address);
      const now = performance.now();
      if (!entry || now - entry.soughtAt >= (entry.queues.size > 0 ? FRESH_MS : UNKNOWN_MS)) {
        if (known.size > MOST_ADDRESSES) known.clear();
        entry = { queues: new Set(), soughtAt: now };
        known.set(address, entry);
        seek(address);
      }
      const queues = [...entry.queues];
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
