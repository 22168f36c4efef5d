import type { Log } from '@wellspring/core/log';
import { Unavailable } from '@wellspring/core/unavailable';
import { withTimeout } from '@wellspring/core/with-timeout';
import { type Channel, type ChannelEvents, type KeptChannel, keepChannel } from './channel.ts';
import { openLink } from './link.ts';
import { watchNodes } from './nodes.ts';
import { createPublisher, type Publisher } from './publisher.ts';

/**
 * Connections to RabbitMQ: one that publishes and one that consumes, so that a broker which takes no messages for want
 * of memory or disk still takes what confirms them. The package is the one door to amqplib.
 *
 * They reconnect by themselves and for ever, within about a second of the broker's return; channels are prepared anew.
 */
export interface Amqp {
  /** Whether messages would be sent and taken now. */
  readonly isUp: boolean;
  /** A channel for consumers, on the connection that consumes. */
  openChannel(events: ChannelEvents): KeptChannel;
  /** @param name for the log */
  openPublisher(name: string): Publisher;
  /** @throws Unavailable when the broker does not answer within 2 seconds, or takes no messages */
  ping(): Promise<void>;
  /** Closes what was opened, too. */
  close(): Promise<void>;
}

export interface AmqpTarget {
  /** `amqp://user:password@host:port/vhost`, or `amqps:` for TLS. */
  url: string;
  log: Log;
  /** Ends the wait for a broker that is not there. */
  signal?: AbortSignal;
}

const PING_TIMEOUT_MS = 2_000;

/**
 * Connects; a broker that is not there is waited for.
 * @throws Error when the broker is too old, refuses the credentials or the vhost, or the signal is aborted
 */
export async function openAmqp({ url, log, signal }: AmqpTarget): Promise<Amqp> {
  /** What is to be closed, and how it is renewed where it has to be. */
  const opened = new Map<{ close(): Promise<void> }, (() => void) | undefined>();
  const nodes = watchNodes(url, log, () => {
    for (const renew of opened.values()) renew?.();
  });
  let isOpen = false;
  // Until then there is nothing to renew.
  const changed = () => isOpen && nodes.changed();
  await using stack = new AsyncDisposableStack();
  stack.defer(() => nodes.close());
  const consuming = await openLink({ url, of: 'consumers', log, signal, changed });
  stack.defer(() => consuming.close());
  const publishing = await openLink({ url, of: 'publishers', log, signal, changed });
  stack.move();
  isOpen = true;

  function closable<T extends { close(): Promise<void> }>(one: T, renew?: () => void): T {
    const close = one.close;
    one.close = async () => {
      opened.delete(one);
      await close();
    };
    opened.set(one, renew);
    return one;
  }
  let answering = Promise.withResolvers<Channel>();
  const probe = keepChannel(
    consuming,
    (model) => model.createChannel(),
    {
      name: 'ping',
      setup: async () => {},
      ready: (channel) => answering.resolve(channel),
      lost: () => {
        answering = Promise.withResolvers();
      },
    },
    log,
  );

  return {
    get isUp() {
      return consuming.isUp && publishing.isUp;
    },
    openChannel(events) {
      const kept = keepChannel(consuming, (model) => model.createChannel(), events, log);
      return closable(kept, events.isRenewed ? kept.renew : undefined);
    },
    openPublisher: (name) =>
      closable(
        createPublisher({
          name,
          log,
          keep: (events) => keepChannel(publishing, (model) => model.createConfirmChannel(), events, log),
          isBlocked: () => publishing.blocked !== undefined,
        }),
      ),
    async ping() {
      if (publishing.blocked) throw new Unavailable(`RabbitMQ takes no messages: ${publishing.blocked}`);
      const asked = answering.promise
        .then((channel) => channel.checkExchange('amq.direct'))
        .then(
          () => publishing.isUp,
          () => false,
        );
      if (!(await withTimeout(asked, PING_TIMEOUT_MS))) throw new Unavailable('RabbitMQ does not answer');
    },
    async close() {
      await Promise.all([...opened.keys(), probe].map((one) => one.close()));
      await Promise.all([consuming.close(), publishing.close(), nodes.close()]);
    },
  };
}

export type { KeptChannel, Publisher };
