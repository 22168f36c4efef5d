import type { Log } from '@wellspring/core/log';
import { type Connection, disconnect } from './connection.ts';

export interface SubscriberEvents {
  /** `channel` is without the prefix. */
  message(channel: string, message: string): void;
  /**
   * The subscription is active, for the first time or after the connection was lost. Messages published before may
   * have been missed.
   */
  listening(channel: string): void;
}

/** Subscriptions over a separate connection, restored after it was lost. */
export interface Subscriber {
  /** Active from the event `listening` on. Idempotent. */
  subscribe(channel: string): void;
  /** Messages in flight may still arrive. */
  unsubscribe(channel: string): void;
  /** @throws Error when the server does not answer within 2 seconds */
  ping(): Promise<void>;
  close(): Promise<void>;
}

const HEARTBEAT_INTERVAL_MS = 2_000;
const MAX_CHANNELS_PER_COMMAND = 500;

/** @param connection ready; owned by the subscriber from now on */
export function createSubscriber(
  connection: Connection,
  { prefix, log, events }: { prefix: string; log: Log; events: SubscriberEvents },
): Subscriber {
  const wanted = new Set<string>();
  /** Confirmed or requested on the present connection. */
  let requested = new Set<string>();

  async function request(channels: string[]): Promise<void> {
    const mine = requested;
    for (const channel of channels) mine.add(channel);
    try {
      await connection.subscribe(...channels.map((channel) => prefix + channel));
    } catch (error) {
      // Retried by the next heartbeat or connection.
      for (const channel of channels) mine.delete(channel);
      if (connection.status === 'ready') log.warn({ error: String(error) }, 'redis.subscribe_failed');
      return;
    }
    for (const channel of channels) {
      if (wanted.has(channel) && requested === mine) events.listening(channel);
    }
  }

  function requestMissing(): void {
    const missing = [...wanted].filter((channel) => !requested.has(channel));
    while (missing.length > 0) void request(missing.splice(0, MAX_CHANNELS_PER_COMMAND));
  }

  connection.on('close', () => {
    requested = new Set();
  });
  connection.on('ready', requestMissing);
  connection.on('message', (channel: string, message: string) => {
    if (channel.startsWith(prefix)) events.message(channel.slice(prefix.length), message);
  });
  const heartbeat = setInterval(() => {
    if (connection.status !== 'ready') return;
    // Without an answer ioredis reconnects.
    connection.ping().catch(() => {});
    requestMissing();
  }, HEARTBEAT_INTERVAL_MS);
  heartbeat.unref();

  return {
    subscribe(channel) {
      wanted.add(channel);
      if (connection.status === 'ready' && !requested.has(channel)) void request([channel]);
    },
    unsubscribe(channel) {
      wanted.delete(channel);
      if (!requested.delete(channel)) return;
      connection.unsubscribe(prefix + channel).catch(() => {});
    },
    async ping() {
      await connection.ping();
    },
    async close() {
      clearInterval(heartbeat);
      wanted.clear();
      await disconnect(connection);
    },
  };
}
