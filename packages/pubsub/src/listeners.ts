import type { Log } from '@wellspring/core/log';

/** Who listens to what, within one process. */
export interface Listeners {
  has(topic: string): boolean;
  /** The same listener may be added twice. Gives the function that removes it. */
  add(topic: string, listener: (message: string) => void): () => void;
  /** Calls all who listen now, one after the other; one that throws harms nobody. */
  deliver(topic: string, message: string): void;
  clear(): void;
}

/** @param ended is told when the last listener of a topic is removed */
export function createListeners(log: Log, ended: (topic: string) => void = () => {}): Listeners {
  const topics = new Map<string, Set<(message: string) => void>>();
  return {
    has: (topic) => topics.has(topic),
    add(topic, listener) {
      // A function of its own, so that the same listener may subscribe twice.
      const mine = (message: string) => listener(message);
      const listeners = topics.get(topic) ?? new Set();
      topics.set(topic, listeners.add(mine));
      return () => {
        listeners.delete(mine);
        if (listeners.size > 0 || topics.get(topic) !== listeners) return;
        topics.delete(topic);
        ended(topic);
      };
    },
    deliver(topic, message) {
      const listeners = topics.get(topic) ?? new Set();
      for (const listener of [...listeners]) {
        // A listener before it may have ended this subscription.
        if (!listeners.has(listener)) continue;
        try {
          listener(message);
        } catch (error) {
          log.error({ topic, error: String(error) }, 'pubsub.listener_failed');
        }
      }
    },
    clear: () => topics.clear(),
  };
}
