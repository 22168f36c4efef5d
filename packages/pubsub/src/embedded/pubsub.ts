import type { Log } from '@wellspring/core/log';
import { createListeners } from '../listeners.ts';
import type { PubSub } from '../port.ts';

/** Within one process. Listeners run after the publisher's turn. */
export function createEmbeddedPubSub({ log }: { log: Log }): PubSub {
  const listeners = createListeners(log);
  return {
    publish(topic, message = '') {
      if (listeners.has(topic)) setImmediate(listeners.deliver, topic, message);
    },
    subscribe: listeners.add,
    ping: async () => {},
    close: async () => listeners.clear(),
  };
}
