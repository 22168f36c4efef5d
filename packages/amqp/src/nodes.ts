import { silentLog } from '@wellspring/core/log';
import { nodesOf, openLink } from './link.ts';

/** Sees when a node of the broker goes or comes, also one to which nothing else of this process is connected. */
export interface Nodes {
  /** To be called when another connection was lost, or is back. */
  changed(): void;
  close(): Promise<void>;
}

/** By then the queues have their leaders. */
const SETTLED_MS = 2_000;
/** Leaders move without a node that goes or comes, too, and a balancer hides the nodes. */
const SOMETIME_MS = 300_000;

/**
 * Calls `renew` a while after each change, and now and then. When the leader of a quorum queue dies, RabbitMQ may
 * lose confirmations of consumers whose channels live on, and messages on their way to them. Neither comes again
 * before the channel ends: the messages wait for ever, and what is not confirmed adds up until the consumer gets nothing
 * any more (seen with 3.10; https://github.com/rabbitmq/rabbitmq-server/issues/15473 tells of 4.x).
 */
export function watchNodes(url: string, renew: () => void): Nodes {
  const nodes = nodesOf(url);
  const closing = new AbortController();
  let settling: NodeJS.Timeout | undefined;
  let isLate = false;
  const sometime = setInterval(renew, SOMETIME_MS);
  sometime.unref();

  function changed(): void {
    if (closing.signal.aborted) return;
    if (settling) isLate = true;
    else settling = setTimeout(settled, SETTLED_MS);
  }

  function settled(): void {
    settling = undefined;
    renew();
    if (isLate) changed();
    isLate = false;
  }

  const { signal } = closing;
  // The only node is that of the other connections.
  const watched = nodes.length > 1 ? nodes : [];
  const watches = watched.map(({ href }) =>
    openLink({ url: href, of: 'watch', log: silentLog, signal, changed }).catch(() => undefined),
  );
  return {
    changed,
    async close() {
      clearInterval(sometime);
      closing.abort();
      clearTimeout(settling);
      await Promise.all(watches.map(async (watch) => (await watch)?.close()));
    },
  };
}
