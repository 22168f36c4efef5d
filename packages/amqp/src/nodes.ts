import { type Log, silentLog } from '@wellspring/core/log';
import { nodesOf, openLink } from './link.ts';

/** Sees when a node of the broker goes or comes, also one to which nothing else of this process is connected. */
export interface Nodes {
  /** To be called when another connection was lost, or is back. */
  changed(): void;
  close(): Promise<void>;
}

/** By then the queues have their leaders, most of the time; and once more, for the sake of those that had not. */
const SETTLED_MS = 2_000;
const LATE_MS = 15_000;
/** Leaders move without a node that goes or comes, too, and a balancer hides the nodes. */
const SOMETIME_MS = 300_000;

/**
 * Calls `renew` a while after each change, and now and then. When the leader of a quorum queue dies, RabbitMQ may
 * lose confirmations of consumers whose channels live on, and messages on their way to them. Neither comes again
 * before the channel ends: the messages wait for ever, and what is not confirmed adds up until the consumer gets nothing
 * any more (seen with 3.10; https://github.com/rabbitmq/rabbitmq-server/issues/15473 tells of 4.x).
 */
export function watchNodes(url: string, log: Log, renew: () => void): Nodes {
  const nodes = nodesOf(url);
  const closing = new AbortController();
  const timers = new Map<number, NodeJS.Timeout>();
  const sometime = setInterval(renew, SOMETIME_MS);
  sometime.unref();

  function renewAfter(ms: number): void {
    if (timers.has(ms)) return;
    const due = () => {
      timers.delete(ms);
      renew();
    };
    timers.set(ms, setTimeout(due, ms));
  }

  function changed(): void {
    if (closing.signal.aborted) return;
    renewAfter(SETTLED_MS);
    renewAfter(LATE_MS);
  }

  const { signal } = closing;
  // The only node is that of the other connections.
  const watched = nodes.length > 1 ? nodes : [];
  const watches = watched.map(({ href }) =>
    openLink({ url: href, of: 'watch', log: silentLog, signal, changed }).catch((error: unknown) => {
      if (!signal.aborted) log.warn({ server: 'rabbitmq', error: String(error) }, 'rabbitmq.not_watched');
      return undefined;
    }),
  );
  return {
    changed,
    async close() {
      clearInterval(sometime);
      closing.abort();
      for (const timer of timers.values()) clearTimeout(timer);
      await Promise.all(watches.map(async (watch) => (await watch)?.close()));
    },
  };
}
