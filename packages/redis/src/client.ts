import type { Log } from '@wellspring/core/log';
import type { RedisCommander } from 'ioredis';
import { connect, createConnection, disconnect } from './connection.ts';
import { createSubscriber, type Subscriber, type SubscriberEvents } from './subscriber.ts';

/**
 * Client for Redis; sole importer of ioredis.
 *
 * It attempts to reconnect about once a second until it succeeds. Without a connection, commands fail at once; a command
 * in flight fails when the connection is lost, or after 2 seconds without an answer (the server may have executed it).
 * Commands are neither queued nor resent.
 */
export interface Redis {
  /** Whether it is connected. */
  readonly isUp: boolean;
  /**
   * Keys in arguments get the prefix; patterns and results of SCAN do not.
   * Each command throws an Error when the server does not answer or refuses it.
   */
  readonly commands: RedisCommander;
  /** Defines a Lua script; the first `keyCount` arguments are keys and get the prefix. Its text is sent once per connection, and again if the server lost it. */
  script(lua: string, keyCount: number): (...keysAndArguments: (string | number)[]) => Promise<unknown>;
  /** The name of the channel gets the prefix. @throws Error when the server does not answer */
  publish(channel: string, message: string): Promise<void>;
  /** Opens a separate connection, which the subscriber closes. @throws Error as `openRedis` does */
  openSubscriber(events: SubscriberEvents, signal?: AbortSignal): Promise<Subscriber>;
  /** @throws Error when the server does not answer within 2 seconds */
  ping(): Promise<void>;
  /** Waits at most 2 seconds for commands in flight. Subscribers stay open. */
  close(): Promise<void>;
}

export interface RedisTarget {
  /** `redis://user:password@host:port/database`, or `rediss:` for TLS. */
  url: string;
  /** Default `wellspring:`. */
  prefix?: string;
  log: Log;
  /** A command without an answer fails after this long; default 2 seconds. */
  commandTimeoutMs?: number;
  /** Aborts the wait for the first connection. */
  signal?: AbortSignal;
}

/**
 * Connects; waits for the server as long as it is unreachable.
 * @throws Error when the server refuses the credentials or the database, or the signal is aborted
 */
export async function openRedis({
  url,
  prefix = 'wellspring:',
  log,
  commandTimeoutMs,
  signal,
}: RedisTarget): Promise<Redis> {
  const created = createConnection(url, 'commands', log, { prefix, commandTimeoutMs });
  const connection = await connect(created, signal);
  let scripts = 0;
  return {
    get isUp() {
      return connection.status === 'ready';
    },
    commands: connection,
    script(lua, keyCount) {
      const name = `script${++scripts}`;
      connection.defineCommand(name, { lua, numberOfKeys: keyCount });
      const defined = connection as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
      return (...args) => defined[name]!(...args);
    },
    async publish(channel, message) {
      // ioredis adds its prefix to keys only.
      await connection.publish(prefix + channel, message);
    },
    async openSubscriber(events, subscriberSignal) {
      const own = createConnection(url, 'subscriptions', log, { commandTimeoutMs });
      const another = await connect(own, subscriberSignal);
      return createSubscriber(another, { prefix, log, events });
    },
    async ping() {
      await connection.ping();
    },
    close: () => disconnect(connection),
  };
}
