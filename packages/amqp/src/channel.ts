import { setTimeout as pause } from 'node:timers/promises';
import { backoff } from '@wellspring/core/backoff';
import type { Log } from '@wellspring/core/log';
import { withTimeout } from '@wellspring/core/with-timeout';
import type { Channel, ChannelModel, ConfirmChannel, ConsumeMessage, Options } from 'amqplib';
import { type Link, RECONNECT_BACKOFF, STABLE_MS } from './link.ts';

export interface ChannelEvents<C extends Channel = Channel> {
  /** For the log. */
  name: string;
  /**
   * Prepares a new channel: its queues, prefetch and consumers. When it throws, another channel is made after a rest.
   * What is delivered before it resolves is as good as what comes later.
   */
  setup(channel: C): Promise<void>;
  /** The channel is the current one from now on. */
  ready?(channel: C): void;
  /** It consumes a quorum queue: see `renew`. */
  isRenewed?: boolean;
  /** The channel is gone, and with it what was prepared: closed by the broker, cancelled, or the connection was lost. */
  lost?(): void;
}

/** A channel that is made and prepared anew whenever it was lost, until it is closed. */
export interface KeptChannel<C extends Channel = Channel> {
  /** The channel that is prepared now. */
  readonly current: C | undefined;
  /** Ends the channel, so that another one is made: what was delivered and not confirmed comes again. */
  renew(): void;
  /** Resolves when the broker has taken all that was sent on it, or after 2 seconds; what it has not is lost. */
  close(): Promise<void>;
}

const GOODBYE_MS = 2_000;
/** A quorum queue without a majority answers nothing. */
const SETUP_TIMEOUT_MS = 15_000;

/** @param make of a confirm channel, or of a plain one */
export function keepChannel<C extends Channel>(
  link: Link,
  make: (model: ChannelModel) => Promise<C>,
  { name, setup, ready, lost }: ChannelEvents<C>,
  log: Log,
): KeptChannel<C> {
  const closing = new AbortController();
  let open: C | undefined;
  let current: C | undefined;

  /** From the making of a channel to its end. @throws Error why it has ended */
  async function live(model: ChannelModel): Promise<void> {
    const ended = Promise.withResolvers<void>();
    let failure: unknown;
    const channel = await make(model);
    open = channel;
    channel.on('error', (error) => {
      failure = error;
    });
    channel.on('close', () => ended.resolve());
    // What a handler throws is a fault of ours, and no reason to lose the connection.
    channel.on('handler-error', (error) => {
      log.error({ channel: name, error: error.stack }, 'rabbitmq.handler_failed');
    });
    try {
      if (!closing.signal.aborted) {
        await withTimeout(Promise.race([setup(channel), ended.promise]), SETUP_TIMEOUT_MS, () => {
          throw new Error('RabbitMQ did not answer in time.');
        });
      }
      if (failure) throw failure;
      if (closing.signal.aborted) return;
      current = channel;
      ready?.(channel);
      await ended.promise;
      if (failure) throw failure;
    } finally {
      current = undefined;
      open = undefined;
      lost?.();
      await withTimeout(channel.close(), GOODBYE_MS).catch(() => {});
    }
  }

  async function run(): Promise<void> {
    for (let attempt = 1; !closing.signal.aborted; attempt++) {
      const model = await link.connection();
      if (!model || closing.signal.aborted) return;
      const begun = performance.now();
      try {
        await live(model);
      } catch (error) {
        if (link.isUp) log.warn({ channel: name, error: String(error) }, 'rabbitmq.channel_closed');
      }
      if (performance.now() - begun > STABLE_MS) attempt = 1;
      // The next one waits for the connection when that is why this one has ended.
      await pause(backoff(attempt, RECONNECT_BACKOFF), undefined, { signal: closing.signal }).catch(() => {});
    }
  }

  const running = run();
  return {
    get current() {
      return current;
    },
    renew() {
      (current ?? open)?.close().catch(() => {});
    },
    async close() {
      closing.abort();
      // One that is still being made ends by itself.
      const ended = open?.close().then(
        () => running,
        // It is being closed already.
        () => running,
      );
      if (ended) await withTimeout(ended, GOODBYE_MS);
    },
  };
}

/** Consumes; a channel whose consumer the broker cancels, since its queue was deleted, ends. */
export async function consume(
  channel: Channel,
  queue: string,
  onMessage: (message: ConsumeMessage) => void,
  options?: Options.Consume,
): Promise<void> {
  await channel.consume(
    queue,
    (message) => {
      if (message) onMessage(message);
      else channel.close().catch(() => {});
    },
    options,
  );
}

/** Confirms a message; on a channel that has ended it comes again to whoever consumes the queue then. */
export function ack(channel: Channel, message: ConsumeMessage): void {
  try {
    channel.ack(message);
  } catch {
    // amqplib throws on a channel that has ended.
  }
}

export type { Channel, ConfirmChannel, ConsumeMessage, Options };
