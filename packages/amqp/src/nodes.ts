import { type Log, silentLog } from '@wellspring/core/log';
import { nodesOf, openConnection } from './connection.ts';

/** Watches all nodes of the cluster, including those that no other connection of this process uses. */
export interface Nodes {
  /** Reports that another connection was lost or is back. */
  changed(): void;
  close(): Promise<void>;
}

/** Queues have usually elected their leaders after the first delay; the second covers those that had not. */
const REOPEN_DELAYS_MS = [2_000, 15_000];
/** Leaders also move without a node change, and a load balancer hides the nodes. */
const REOPEN_INTERVAL_MS = 300_000;

/**
 * Calls `reopen` some time after each node change, and at an interval. When the leader of a quorum queue dies, RabbitMQ
 * may lose acknowledgements of surviving channels, and messages on their way to them. Both stay lost until the channel
 * ends: messages are not redelivered, and the lost acknowledgements use up the consumer's prefetch (seen with 3.10;
 * https://github.com/rabbitmq/rabbitmq-server/issues/15473 reports it for 4.x).
 */
export function watchNodes(url: string, log: Log, reopen: () => void): Nodes {
  const nodes = nodesOf(url);
  const closing = new AbortController();
  const timers = new Map<number, NodeJS.Timeout>();
  const interval = setInterval(reopen, REOPEN_INTERVAL_MS);
  interval.unref();

  function reopenAfter(ms: number): void {
    if (timers.has(ms)) return;
    const due = () => {
      timers.delete(ms);
      reopen();
    };
    timers.set(ms, setTimeout(due, ms));
  }

  function changed(): void {
    if (!closing.signal.aborted) REOPEN_DELAYS_MS.forEach(reopenAfter);
  }

  const { signal } = closing;
  // A single node is watched by the other connections.
  const watched = nodes.length > 1 ? nodes : [];
  const watches = watched.map(({ href }) =>
    openConnection({ url: href, of: 'watch', log: silentLog, signal, changed }).catch((error: unknown) => {
      if (!signal.aborted) log.warn({ server: 'rabbitmq', error: String(error) }, 'rabbitmq.not_watched');
      return undefined;
    }),
  );
  return {
    changed,
    async close() {
      clearInterval(interval);
      closing.abort();
      for (const timer of timers.values()) clearTimeout(timer);
      await Promise.all(watches.map(async (watch) => (await watch)?.close()));
    },
  };
}
