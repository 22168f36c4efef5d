import type { Log } from '@wellspring/core/log';
import type { RedisCommander } from 'ioredis';
import { connected, createConnection, end } from './connection.ts';
import { createSubscriber, type Subscriber, type SubscriberEvents } from './subscriber.ts';

/**
 * Client for Redis; sole importer of ioredis.
 *
 * It reconnects within about a second of the server's return, without limit. Without a connection, commands fail at
 * once; a command in flight fails when the connection is lost, or after 2 seconds without an answer (it may have been
 * executed). Commands are neither queued nor resent.
 */
export interface Redis {
  readonly isUp: boolean;
  /**
   * Keys in arguments get the prefix; patterns and results of SCAN do not.
   * @throws Error when the server does not answer
   */
  readonly commands: RedisCommander;
  /** A Lua script; the first `keys` arguments are keys and get the prefix. Sent once per connection. */
  script(lua: string, keys: number): (...keysAndArguments: (string | number)[]) => Promise<unknown>;
  /** Publishes on a channel, which gets the prefix. @throws Error when the server does not answer */
  publish(channel: string, message: string): Promise<void>;
  /** Opens a separate connection for subscriptions. @throws Error as `openRedis` */
  openSubscriber(events: SubscriberEvents, signal?: AbortSignal): Promise<Subscriber>;
  /** @throws Error when the server does not answer within 2 seconds */
  ping(): Promise<void>;
  /** Waits at most 2 seconds for commands in flight. */
  close(): Promise<void>;
}

export interface RedisTarget {
  /** `redis://user:password@host:port/database`, or `rediss:` for TLS. */
  url: string;
  /** Default `wellspring:`. */
  prefix?: string;
  log: Log;
  /** Aborts the wait for an unreachable server. */
  signal?: AbortSignal;
}

/**
 * Connects; waits for an unreachable server.
 * @throws Error when the server refuses the credentials or the database, or the signal is aborted
 */
export async function openRedis({ url, prefix = 'wellspring:', log, signal }: RedisTarget): Promise<Redis> {
  const connection = await connected(createConnection(url, 'commands', log, prefix), signal);
  let scripts = 0;
  return {
    get isUp() {
      return connection.status === 'ready';
    },
    commands: connection,
    script(lua, keys) {
      const name = `script${++scripts}`;
      connection.defineCommand(name, { lua, numberOfKeys: keys });
      const defined = connection as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
      return (...args) => defined[name]!(...args);
    },
    async publish(channel, message) {
      await connection.publish(prefix + channel, message);
    },
    async openSubscriber(events, signal) {
      const second = await connected(createConnection(url, 'subscriptions', log), signal);
      return createSubscriber(second, { prefix, log, events });
    },
    async ping() {
      await connection.ping();
    },
    close: () => end(connection),
  };
}
