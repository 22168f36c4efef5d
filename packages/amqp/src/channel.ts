import { backoff } from '@wellspring/core/backoff';
import { systemClock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { withTimeout } from '@wellspring/core/with-timeout';
import type { Channel, ChannelModel, ConfirmChannel, ConsumeMessage, Options } from 'amqplib';
import { type Connection, RECONNECT_BACKOFF, STABLE_MS } from './connection.ts';

export interface ChannelEvents<C extends Channel = Channel> {
  /** For the log. */
  name: string;
  /**
   * Declares queues, sets the prefetch, starts consumers. If it throws, another channel is opened after a backoff.
   * Messages may arrive before it resolves.
   */
  setup(channel: C): Promise<void>;
  /** The channel is `current` now. */
  ready?(channel: C): void;
  /** Set for consumers of quorum queues: the channel is reopened when a node joins or leaves the cluster. */
  reopenOnNodeChange?: boolean;
  /** The channel has ended, for any reason, `close` and a failed setup included. */
  lost?(): void;
}

/** A channel that is reopened whenever it is lost, until `close` is called. */
export interface RecoveringChannel<C extends Channel = Channel> {
  /** Undefined while no channel is set up. */
  readonly current: C | undefined;
  /** Replaces the channel; unacknowledged messages are redelivered. */
  reopen(): void;
  /** Resolves when the broker has received everything sent on the channel, at the latest after 2 seconds. */
  close(): Promise<void>;
}

const CLOSE_TIMEOUT_MS = 2_000;
/** A quorum queue without a majority does not answer. */
const SETUP_TIMEOUT_MS = 15_000;

/** @param make creates a plain channel or a confirm channel */
export function openRecoveringChannel<C extends Channel>(
  connection: Connection,
  make: (model: ChannelModel) => Promise<C>,
  { name, setup, ready, lost }: ChannelEvents<C>,
  log: Log,
): RecoveringChannel<C> {
  const closing = new AbortController();
  let open: C | undefined;
  let current: C | undefined;

  /** The lifetime of one channel. @throws Error the reason for its end */
  async function live(model: ChannelModel): Promise<void> {
    const ended = Promise.withResolvers<void>();
    let failure: unknown;
    const channel = await make(model);
    open = channel;
    channel.on('error', (error) => {
      failure = error;
    });
    channel.on('close', () => ended.resolve());
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
      await withTimeout(channel.close(), CLOSE_TIMEOUT_MS).catch(() => {});
    }
  }

  async function run(): Promise<void> {
    for (let attempt = 1; !closing.signal.aborted; attempt++) {
      const model = await connection.model();
      if (!model || closing.signal.aborted) return;
      const begun = performance.now();
      try {
        await live(model);
      } catch (error) {
        if (connection.isUp) log.warn({ channel: name, error: String(error) }, 'rabbitmq.channel_closed');
      }
      if (performance.now() - begun > STABLE_MS) attempt = 1;
      await systemClock.sleep(backoff(attempt, RECONNECT_BACKOFF), closing.signal);
    }
  }

  const running = run();
  return {
    get current() {
      return current;
    },
    reopen() {
      open?.close().catch(() => {});
    },
    async close() {
      closing.abort();
      const ended = open?.close().then(
        () => running,
        () => running,
      );
      if (ended) await withTimeout(ended, CLOSE_TIMEOUT_MS);
    },
  };
}

/** Starts a consumer. The channel is closed when the broker cancels the consumer because its queue was deleted. */
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

/** Acknowledges a message. Does nothing on a closed channel: the broker redelivers the message. */
export function ack(channel: Channel, message: ConsumeMessage): void {
  try {
    channel.ack(message);
  } catch {
    // amqplib throws on a closed channel.
  }
}

export type { Channel, ConfirmChannel, ConsumeMessage, Options };
