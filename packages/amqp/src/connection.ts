import { randomInt } from 'node:crypto';
import { type Backoff, backoff } from '@wellspring/core/backoff';
import { systemClock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { isAtLeast } from '@wellspring/core/versions';
import { withTimeout } from '@wellspring/core/with-timeout';
import { type ChannelModel, connect } from 'amqplib';

/** One connection to the broker that reconnects until it is closed. */
export interface Connection {
  readonly isUp: boolean;
  /** The broker blocks publishers, for this reason, e.g. `low on memory`. */
  readonly blocked: Blocked | undefined;
  /** Waits for the connection; undefined when it is closed first. */
  model(): Promise<ChannelModel | undefined>;
  /** Graceful for at most 2 seconds: the broker receives what was sent. */
  close(): Promise<void>;
}

export interface Blocked {
  reason: string;
  /** performance.now() */
  since: number;
}

const CONNECT_TIMEOUT_MS = 5_000;
/** After two heartbeats without traffic the connection counts as lost. */
const HEARTBEAT_SECONDS = 4;
const CLOSE_TIMEOUT_MS = 2_000;
const MIN_VERSION = '3.10.0';

/** Retrying does not help: credentials, permissions, an unknown vhost. */
const REFUSED = /ACCESS.REFUSED|NOT.ALLOWED|Expected ConnectionOpenOk/i;
const UNKNOWN_VHOST = /Expected ConnectionOpenOk/;

class VersionTooOld extends Error {}

export const RECONNECT_BACKOFF: Backoff = { baseMs: 50, maxMs: 1_000, jitterMs: 25 };
/** An attempt and its connection that lasted this long together reset the backoff. */
export const STABLE_MS = 1_000;

export interface ConnectionTarget {
  /** `amqp://user:password@host:port/vhost`; several hosts, separated by commas, are the nodes of a cluster. */
  url: string;
  /** Purpose of the connection, for the log and the broker's connection name. */
  of: string;
  log: Log;
  /** Aborts the wait for an unreachable broker. */
  signal?: AbortSignal | undefined;
  /** Called while the connection is being lost or restored, before `isUp` changes, and when it is closed. */
  changed?(): unknown;
}

/**
 * Connects; waits for an unreachable broker. Each attempt tries the next node of the cluster.
 * @throws Error when the broker is too old, refuses the credentials or the vhost, or the signal is aborted
 */
export async function openConnection({
  url,
  of,
  log,
  signal,
  changed,
}: ConnectionTarget): Promise<Connection> {
  const nodes = nodesOf(url);
  let next = randomInt(nodes.length);
  const fields = { server: 'rabbitmq', address: nodes.map(({ host }) => host).join(), of };
  const closing = new AbortController();
  let model: ChannelModel | undefined;
  /** Aborting it destroys the present socket. */
  let life = new AbortController();
  let blocked: Blocked | undefined;
  let downSince: number | undefined;
  let arrival = Promise.withResolvers<void>();
  const first = Promise.withResolvers<void>();

  const lost = (error: unknown) => {
    if (downSince !== undefined || closing.signal.aborted) return;
    downSince = performance.now();
    log.warn({ ...fields, error: reasonOf(error) }, 'rabbitmq.down');
  };

  /** The lifetime of one connection. */
  async function live(): Promise<void> {
    life = new AbortController();
    try {
      const node = nodes[next++ % nodes.length]!;
      const opened = await connect(node.href, {
        timeout: CONNECT_TIMEOUT_MS,
        noDelay: true,
        clientProperties: { connection_name: `wellspring ${of}` },
        // amqplib does not destroy a socket whose peer is silent. Its types lack the option.
        ...{ signal: life.signal },
      });
      const ended = Promise.withResolvers<unknown>();
      let failure: unknown;
      opened.on('error', (error) => {
        failure = error;
      });
      opened.on('close', (error) => ended.resolve(failure ?? error));
      opened.on('blocked', (reason) => {
        blocked = { reason, since: performance.now() };
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
      if (closing.signal.aborted) void closeGracefully();
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
        if (error instanceof VersionTooOld || REFUSED.test(String(error))) {
          first.reject(new Error(`RabbitMQ refuses the connection: ${reasonOf(error)}`));
        }
        lost(error);
      });
      if (performance.now() - begun > STABLE_MS) attempt = 1;
      await systemClock.sleep(backoff(attempt, RECONNECT_BACKOFF), closing.signal);
    }
    arrival.resolve();
  }

  async function closeGracefully(): Promise<void> {
    await model?.close().catch(() => {});
  }

  const running = run();
  const connection: Connection = {
    get isUp() {
      return model !== undefined && !closing.signal.aborted;
    },
    get blocked() {
      return blocked;
    },
    async model() {
      while (!model && !closing.signal.aborted) await arrival.promise;
      return model;
    },
    async close() {
      closing.abort();
      await withTimeout(closeGracefully(), CLOSE_TIMEOUT_MS);
      life.abort();
      await withTimeout(running, CLOSE_TIMEOUT_MS);
    },
  };
  const aborted = () => first.reject(signal?.reason);
  signal?.addEventListener('abort', aborted, { once: true });
  if (signal?.aborted) aborted();
  try {
    await first.promise;
    return connection;
  } catch (error) {
    await connection.close();
    throw error;
  } finally {
    signal?.removeEventListener('abort', aborted);
  }
}

/** One URL per node. @throws Error when the URL is malformed; the message does not contain its credentials */
export function nodesOf(text: string): URL[] {
  const [, before, hosts = '', after] = /^(amqps?:\/\/(?:[^@/?]*@)?)([^@/?]+)(.*)$/s.exec(text) ?? [];
  const urls = hosts.split(',').map((host) => `${before}${host}${after}`);
  if (before === undefined || !urls.every((one) => URL.canParse(one))) {
    throw new Error('Invalid RabbitMQ URL: use amqp://user:password@host[,host…]/vhost.');
  }
  return urls.map((one) => {
    const url = new URL(one);
    if (!url.searchParams.has('heartbeat')) url.searchParams.set('heartbeat', `${HEARTBEAT_SECONDS}`);
    return url;
  });
}

/** Quorum queues support message TTLs since 3.10. */
function assertVersion({ connection }: ChannelModel): void {
  const { product, version } = connection.serverProperties;
  if (product !== 'RabbitMQ' || isAtLeast(version, MIN_VERSION)) return;
  throw new VersionTooOld(`Version ${version} is too old; at least ${MIN_VERSION} is required.`);
}

function reasonOf(error: unknown): string {
  const reason = (error as Error | undefined)?.message || String(error ?? 'The connection was closed');
  // amqplib drops the text of the broker.
  return UNKNOWN_VHOST.test(reason)
    ? 'The vhost of the URL does not exist, or the user may not access it.'
    : reason;
}
