import { randomInt } from 'node:crypto';
import { createLru } from '@wellspring/core/lru';

/** Registry of servers: the queues of each address, as discovered lately. */
export interface Registry {
  /** A queue that serves the address; undefined: discovery has started, without an answer so far. */
  find(address: string): string | undefined;
  add(address: string, queue: string): void;
  remove(address: string, queue: string): void;
}

/** Short, since messages to the queue of a dead node are lost without an error. */
const MAX_AGE_MS = 1_000;
const DISCOVERY_INTERVAL_MS = 50;
const MAX_ADDRESSES = 10_000;

interface Entry {
  queues: Set<string>;
  /** performance.now(). */
  discoveredAt: number;
}

/** @param discover asks all servers of an address to answer with their queue */
export function createRegistry(discover: (address: string) => void): Registry {
  const known = createLru<Entry>(MAX_ADDRESSES);
  return {
    find(address) {
      let entry = known.get(address);
      const now = performance.now();
      if (
        !entry ||
        now - entry.discoveredAt >= (entry.queues.size > 0 ? MAX_AGE_MS : DISCOVERY_INTERVAL_MS)
      ) {
        entry = { queues: new Set(), discoveredAt: now };
        known.set(address, entry);
        discover(address);
      }
      const queues = [...entry.queues];
      return queues.length > 0 ? queues[randomInt(queues.length)] : undefined;
    },
    add(address, queue) {
      known.get(address)?.queues.add(queue);
    },
    remove(address, queue) {
      known.get(address)?.queues.delete(queue);
    },
  };
}
