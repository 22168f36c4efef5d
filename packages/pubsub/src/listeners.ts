import type { Log } from '@wellspring/core/log';

/** Listeners by topic, within one process. */
export interface Listeners {
  has(topic: string): boolean;
  /** The same listener may be added twice. @returns a function that removes it */
  add(topic: string, listener: (message: string) => void): () => void;
  /** Calls all listeners of the topic. Errors of listeners are logged. */
  deliver(topic: string, message: string): void;
  clear(): void;
}

/** @param ended called when the last listener of a topic is removed */
export function createListeners(log: Log, ended: (topic: string) => void = () => {}): Listeners {
  const topics = new Map<string, Set<(message: string) => void>>();
  return {
    has: (topic) => topics.has(topic),
    add(topic, listener) {
      // Wrapped, so that the same listener may subscribe twice.
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
        // An earlier listener may have removed this one.
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
