import type { Log } from '@wellspring/core/log';
import { type Connection, end } from './connection.ts';

export interface SubscriberEvents {
  /** A message came; the channel is without the prefix. */
  message(channel: string, message: string): void;
  /**
   * The channel is listened to from now on: for the first time, or again after the connection was lost. What was
   * published before that, since the channel was asked for or the connection was lost, may have been missed.
   */
  listening(channel: string): void;
}

/** Channels over a connection of their own, which are listened to again when it was lost. */
export interface Subscriber {
  /** Takes effect with the event `listening`. Once more does nothing. */
  subscribe(channel: string): void;
  /** A message that is on its way may still come. */
  unsubscribe(channel: string): void;
  /** @throws Error when the server does not answer on this connection within 2 seconds */
  ping(): Promise<void>;
  close(): Promise<void>;
}

/** How often a connection on which nothing comes is asked whether it is alive. */
const HEARTBEAT_MS = 2_000;
const CHANNELS_AT_ONCE = 500;

/** @param connection to a server that has answered; the subscriber's from now on */
export function createSubscriber(
  connection: Connection,
  { prefix, log, events }: { prefix: string; log: Log; events: SubscriberEvents },
): Subscriber {
  const wanted = new Set<string>();
  /** Those of them that the server has confirmed or is being asked for, on the present connection. */
  let asked = new Set<string>();

  async function ask(channels: string[]): Promise<void> {
    const mine = asked;
    for (const channel of channels) mine.add(channel);
    try {
      await connection.subscribe(...channels.map((channel) => prefix + channel));
    } catch (error) {
      // Asked for again with the next heartbeat or connection.
      for (const channel of channels) mine.delete(channel);
      if (connection.status === 'ready') log.warn({ error: String(error) }, 'redis.subscribe_failed');
      return;
    }
    for (const channel of channels) {
      if (wanted.has(channel) && asked === mine) events.listening(channel);
    }
  }

  function askForMissing(): void {
    const missing = [...wanted].filter((channel) => !asked.has(channel));
    while (missing.length > 0) void ask(missing.splice(0, CHANNELS_AT_ONCE));
  }

  connection.on('close', () => {
    asked = new Set();
  });
  connection.on('ready', askForMissing);
  connection.on('message', (channel: string, message: string) => {
    if (channel.startsWith(prefix)) events.message(channel.slice(prefix.length), message);
  });
  const heartbeat = setInterval(() => {
    if (connection.status !== 'ready') return;
    // One that is not answered ends the connection, and with it begins the next.
    connection.ping().catch(() => {});
    askForMissing();
  }, HEARTBEAT_MS);
  heartbeat.unref();

  return {
    subscribe(channel) {
      wanted.add(channel);
      if (connection.status === 'ready' && !asked.has(channel)) void ask([channel]);
    },
    unsubscribe(channel) {
      wanted.delete(channel);
      if (!asked.delete(channel)) return;
      connection.unsubscribe(prefix + channel).catch(() => {});
    },
    async ping() {
      await connection.ping();
    },
    async close() {
      clearInterval(heartbeat);
      wanted.clear();
      await end(connection);
    },
  };
}
