import type { Log } from '@wellspring/core/log';
import type { PubSub } from './port.ts';

/** Within one process. Listeners run after the publisher's turn; one that throws harms nobody. */
export function createEmbeddedPubSub({ log }: { log: Log }): PubSub {
  const topics = new Map<string, Set<(message: string) => void>>();

  function deliver(topic: string, message: string): void {
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
  }

  return {
    publish(topic, message = '') {
      if (topics.has(topic)) setImmediate(deliver, topic, message);
    },
    subscribe(topic, listener) {
      // A function of its own, so that the same listener may subscribe twice.
      const mine = (message: string) => listener(message);
      const listeners = topics.get(topic) ?? new Set();
      topics.set(topic, listeners.add(mine));
      return () => {
        listeners.delete(mine);
        if (listeners.size === 0 && topics.get(topic) === listeners) topics.delete(topic);
      };
    },
    ping: async () => {},
    close: async () => topics.clear(),
  };
}
