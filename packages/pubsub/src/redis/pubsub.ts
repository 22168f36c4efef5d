import type { Log } from '@wellspring/core/log';
import type { Redis } from '@wellspring/redis/client';
import { createListeners } from '../listeners.ts';
import type { PubSub } from '../port.ts';

/**
 * PubSub over Redis channels, with one connection for all topics of a process. Whenever a subscription becomes active,
 * also after a lost connection, its listeners are woken with an empty message, since messages may have been missed.
 * While Redis is down, messages reach this process only.
 * @param redis closed by the caller, after this
 * @param signal aborts the wait for an unreachable server
 */
export async function createRedisPubSub(
  redis: Redis,
  { log, signal }: { log: Log; signal?: AbortSignal },
): Promise<PubSub> {
  const listeners = createListeners(log, (topic) => subscriber.unsubscribe(topic));
  const subscriber = await redis.openSubscriber(
    { message: listeners.deliver, listening: (topic) => listeners.deliver(topic, '') },
    signal,
  );
  return {
    publish(topic, message = '') {
      redis.publish(topic, message).catch(() => setImmediate(listeners.deliver, topic, message));
    },
    subscribe(topic, listener) {
      const end = listeners.add(topic, listener);
      subscriber.subscribe(topic);
      return end;
    },
    async ping() {
      await Promise.all([redis.ping(), subscriber.ping()]);
    },
    async close() {
      listeners.clear();
      await subscriber.close();
    },
  };
}
