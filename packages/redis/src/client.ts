import type { Log } from '@wellspring/core/log';
import type { RedisCommander } from 'ioredis';
import { connected, createConnection, end } from './connection.ts';
import { createSubscriber, type Subscriber, type SubscriberEvents } from './subscriber.ts';

/**
 * A connection to Redis. The package is the one door to ioredis.
 *
 * It reconnects by itself and for ever, within about a second of the server's return. While there is no connection,
 * commands fail at once; one that was sent fails when the connection is lost, or after 2 seconds without an answer
 * (it may have been done all the same). Nothing is queued or sent again.
 */
export interface Redis {
  /** Whether commands would be sent now. */
  readonly isUp: boolean;
  /** What keys and channels of this installation begin with. */
  readonly prefix: string;
  /**
   * The commands of the server. Keys in arguments get the prefix; what SCAN looks for and gives does not.
   * @throws Error when the server cannot be asked
   */
  readonly commands: RedisCommander;
  /** A Lua script with so many keys, which come first and get the prefix. Sent once for each connection. */
  script(lua: string, keys: number): (...keysAndArguments: (string | number)[]) => Promise<unknown>;
  /** To all who listen on the channel, which gets the prefix. @throws Error when the server cannot be asked */
  publish(channel: string, message: string): Promise<void>;
  /** Makes another connection to the same server, for channels. @throws Error as `openRedis` */
  openSubscriber(events: SubscriberEvents, signal?: AbortSignal): Promise<Subscriber>;
  /** @throws Error when the server does not answer within 2 seconds */
  ping(): Promise<void>;
  /** What was sent is answered first, for at most 2 seconds. */
  close(): Promise<void>;
}

export interface RedisTarget {
  /** `redis://user:password@host:port/database`, or `rediss:` for TLS. */
  url: string;
  /** Default `wellspring:`. */
  prefix?: string;
  log: Log;
  /** Ends the wait for a server that is not there. */
  signal?: AbortSignal;
}

/**
 * Connects; a server that is not there is waited for.
 * @throws Error when the server refuses the credentials or the database, or the signal is aborted
 */
export async function openRedis({ url, prefix = 'wellspring:', log, signal }: RedisTarget): Promise<Redis> {
  const connection = await connected(createConnection(url, 'commands', log, prefix), signal);
  let scripts = 0;
  return {
    get isUp() {
      return connection.status === 'ready';
    },
    prefix,
    commands: connection,
    script(lua, keys) {
      const name = `script${++scripts}`;
      connection.defineCommand(name, { lua, numberOfKeys: keys });
      const defined = connection as unknown as Record<string, (...all: unknown[]) => Promise<unknown>>;
      return (...all) => defined[name]!(...all);
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
