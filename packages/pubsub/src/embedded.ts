import type { Log } from '@wellspring/core/log';
import type { PubSub } from './port.ts';

/** Within one process. Listeners run after the publisher's turn; one that throws harms nobody. */
export function createEmbeddedPubSub({ log }: { log: Log }): PubSub {
  const topics = new Map<string, Set<(message: string) => void>>();
  return {
    publish(topic, message = '') {
      const listeners = topics.get(topic);
      if (!listeners) return;
      setImmediate(() => {
        for (const listener of [...listeners]) {
          try {
            listener(message);
          } catch (error) {
            log.error({ topic, error: String(error) }, 'pubsub.listener_failed');
          }
        }
      });
    },
    subscribe(topic, listener) {
      // A set of its own function, so that the same listener may subscribe twice.
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
