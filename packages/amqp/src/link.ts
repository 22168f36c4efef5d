import { randomInt } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type Backoff, backoff } from '@wellspring/core/backoff';
import type { Log } from '@wellspring/core/log';
import { withTimeout } from '@wellspring/core/with-timeout';
import { type ChannelModel, connect } from 'amqplib';

/** One connection to the broker, which comes back by itself for as long as it is not closed. */
export interface Link {
  readonly isUp: boolean;
  /** Why the broker takes no messages at the moment, such as `low on memory`. */
  readonly blocked: string | undefined;
  /** The connection, as soon as there is one; undefined when the link is closed first. */
  connection(): Promise<ChannelModel | undefined>;
  /** What was sent is taken first, for at most 2 seconds. */
  close(): Promise<void>;
}

const CONNECT_MS = 5_000;
/** The broker, or a network, that is silent for two of these is gone. */
const HEARTBEAT_SECONDS = 4;
const GOODBYE_MS = 2_000;
const OLDEST = [3, 10] as const;

/** What no waiting will mend: credentials, permissions, a vhost that is not there. */
const REFUSED = /ACCESS.REFUSED|NOT.ALLOWED|Expected ConnectionOpenOk/i;

/** The broker is older than what the queues are built on. */
class TooOld extends Error {}

export const RECONNECT_BACKOFF: Backoff = { baseMs: 50, maxMs: 1_000, jitterMs: 25 };
/** A connection that lasted this long resets the backoff. */
export const STABLE_MS = 1_000;

export interface LinkTarget {
  /** `amqp://user:password@host:port/vhost`; several hosts, separated by commas, are the nodes of a cluster. */
  url: string;
  /** Tells the connections of a process apart, in its log and in what the broker shows. */
  of: string;
  log: Log;
  /** Ends the wait for a broker that is not there. */
  signal?: AbortSignal | undefined;
  /** Called when what was there is gone, and when it is back. */
  changed?(): unknown;
}

/**
 * Connects; a broker that is not there is waited for. Of several nodes, each attempt asks the next one.
 * @throws Error when the broker is too old, refuses the credentials or the vhost, or the signal is aborted
 */
export async function openLink({ url, of, log, signal, changed }: LinkTarget): Promise<Link> {
  const nodes = nodesOf(url);
  // Not all processes ask the same one.
  let next = randomInt(nodes.length);
  const fields = { server: 'rabbitmq', address: nodes.map(({ host }) => host).join(), of };
  const closing = new AbortController();
  let model: ChannelModel | undefined;
  /** Of the present socket, which it destroys. */
  let life = new AbortController();
  let blocked: string | undefined;
  let downSince: number | undefined;
  let arrival = Promise.withResolvers<void>();
  const first = Promise.withResolvers<void>();

  const lost = (error: unknown) => {
    if (downSince !== undefined || closing.signal.aborted) return;
    downSince = performance.now();
    log.warn({ ...fields, error: reasonOf(error) }, 'rabbitmq.down');
  };

  /** From one attempt to connect to the end of that connection. */
  async function live(): Promise<void> {
    life = new AbortController();
    const { signal } = life;
    try {
      const node = nodes[next++ % nodes.length]!;
      const opened = await connect(node.href, {
        timeout: CONNECT_MS,
        noDelay: true,
        clientProperties: { connection_name: `wellspring ${of}` },
        // amqplib leaves a socket on which nothing answers any more to itself.
        ...{ signal },
      });
      const ended = Promise.withResolvers<unknown>();
      let failure: unknown;
      opened.on('error', (error) => {
        failure = error;
      });
      opened.on('close', (error) => ended.resolve(failure ?? error));
      opened.on('blocked', (reason) => {
        blocked = reason;
        log.warn({ ...fields, reason }, 'rabbitmq.blocked');
      });
      opened.on('unblocked', () => {
        blocked = undefined;
        log.info(fields, 'rabbitmq.unblocked');
      });
      assertVersion(opened);
      if (downSince !== undefined) {
        log.info({ ...fields, down_ms: Math.round(performance.now() - downSince) }, 'rabbitmq.up');
        downSince = undefined;
        changed?.();
      }
      model = opened;
      first.resolve();
      arrival.resolve();
      if (closing.signal.aborted) void goodbye();
      lost(await ended.promise);
      changed?.();
    } finally {
      if (model) arrival = Promise.withResolvers();
      model = undefined;
      blocked = undefined;
      life.abort();
    }
  }

  async function run(): Promise<void> {
    for (let attempt = 1; !closing.signal.aborted; attempt++) {
      const begun = performance.now();
      await live().catch((error: unknown) => {
        if (error instanceof TooOld || REFUSED.test(String(error))) {
          first.reject(new Error(`RabbitMQ refuses the connection: ${reasonOf(error)}`));
        }
        lost(error);
      });
      if (performance.now() - begun > STABLE_MS) attempt = 1;
      await pause(backoff(attempt, RECONNECT_BACKOFF), undefined, { signal: closing.signal }).catch(() => {});
    }
    arrival.resolve();
  }

  async function goodbye(): Promise<void> {
    await model?.close().catch(() => {});
  }

  const running = run();
  const link: Link = {
    get isUp() {
      return model !== undefined && !closing.signal.aborted;
    },
    get blocked() {
      return blocked;
    },
    async connection() {
      while (!model && !closing.signal.aborted) await arrival.promise;
      return model;
    },
    async close() {
      closing.abort();
      await withTimeout(goodbye(), GOODBYE_MS);
      life.abort();
      await withTimeout(running, GOODBYE_MS);
    },
  };
  const aborted = () => first.reject(signal?.reason);
  signal?.addEventListener('abort', aborted, { once: true });
  if (signal?.aborted) aborted();
  try {
    await first.promise;
    return link;
  } catch (error) {
    await link.close();
    throw error;
  } finally {
    signal?.removeEventListener('abort', aborted);
  }
}

/** A URL for each node. @throws Error for what is no URL of a broker; its credentials are not in it */
export function nodesOf(text: string): URL[] {
  const [, before, hosts = '', after] = /^(amqps?:\/\/(?:[^@/?]*@)?)([^@/?]+)(.*)$/s.exec(text) ?? [];
  const urls = hosts.split(',').map((host) => `${before}${host}${after}`);
  if (before === undefined || !urls.every((one) => URL.canParse(one))) {
    throw new Error('The URL of RabbitMQ is none.');
  }
  return urls.map((one) => {
    const url = new URL(one);
    if (!url.searchParams.has('heartbeat')) url.searchParams.set('heartbeat', `${HEARTBEAT_SECONDS}`);
    return url;
  });
}

/** Quorum queues with a time limit for messages came with 3.10. */
function assertVersion({ connection }: ChannelModel): void {
  const { product, version } = connection.serverProperties;
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (product !== 'RabbitMQ' || major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return;
  throw new TooOld(`its version is ${version}, and ${OLDEST.join('.')} is needed`);
}

const reasonOf = (error: unknown): string =>
  (error as Error | undefined)?.message || String(error ?? 'the connection was closed');
