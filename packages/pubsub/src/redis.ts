import type { Log } from '@wellspring/core/log';
import type { Redis } from '@wellspring/redis/client';
import { createListeners } from './listeners.ts';
import type { PubSub } from './port.ts';

/**
 * Over the channels of Redis; one connection for all topics that a process listens to. A topic's listeners are woken
 * once, with an empty message, when its subscription comes into force, at first and again after the connection was
 * lost: something may have been missed until then. While Redis is away, what is published reaches this process only.
 * @param redis stays the caller's, who closes it after this
 * @param signal ends the wait for a server that is not there
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
