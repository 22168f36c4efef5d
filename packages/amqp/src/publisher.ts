import type { Log } from '@wellspring/core/log';
import { Unavailable } from '@wellspring/core/unavailable';
import { withTimeout } from '@wellspring/core/with-timeout';
import type { ConfirmChannel, Options } from 'amqplib';
import type { ChannelEvents, KeptChannel } from './channel.ts';

/** A header of messages that were sent before and not confirmed: they may be there twice, under one id. */
export const AGAIN = 'x-again';

export interface Message {
  /** Default: the one that routes to the queue of that name. */
  exchange?: string;
  routingKey: string;
  content: Buffer;
  options?: Options.Publish;
}

/** No queue was there to take the message. */
export class Unroutable extends Unavailable {
  override readonly name = 'Unroutable';
}

/**
 * Publishes with confirms. Messages are sent in the order of the calls; those that were not confirmed when the
 * connection was lost are sent again before newer ones, so that one may arrive twice, and the order of first arrivals
 * is kept. The copy says that it is one, by the header AGAIN.
 *
 * What the broker refuses is sent again, too, on another channel: in a cluster, a channel that was made while the leader
 * of a quorum queue died refuses all for that queue until the dead node is back, and a new one does not
 * (`rabbit_fifo_client` of 3.10 asks the leader that it knows for its version).
 */
export interface Publisher {
  /**
   * Resolves when the broker has confirmed the message: in a quorum queue it is durable then.
   * @throws Unroutable at once when no queue took it; Unavailable when the broker did not take it in time (unconfirmed,
   * it may be there all the same); RangeError when it is larger than MAX_MESSAGE_BYTES
   */
  publish(message: Message): Promise<void>;
  /** Waits for what was sent to be confirmed, for at most 2 seconds. */
  close(): Promise<void>;
}

/** What RabbitMQ 4 takes by default. */
export const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;
/** How long a message may stay unconfirmed. */
export const PUBLISH_MS = 10_000;
/** Unconfirmed at a time; more would only make them late. */
const WINDOW = 1_000;
const WINDOW_BYTES = 32 * 1024 * 1024;
const LOOK_MS = 250;
const CLOSE_TIMEOUT_MS = 2_000;
/**
 * A channel on which nothing was confirmed for so long is made anew: RabbitMQ never confirms what it took for a quorum
 * queue that had no leader yet, which happens for a moment after a restart.
 */
const STALL_MS = 2_000;

interface Entry extends Message {
  id: string;
  deadline: number;
  returned: boolean;
  wasRefused: boolean;
  isCopy: boolean;
  resolve(): void;
  reject(error: Error): void;
}

export interface PublisherOptions {
  /** For the log. */
  name: string;
  log: Log;
  /** Makes the channel. */
  keep(events: ChannelEvents<ConfirmChannel>): KeptChannel<ConfirmChannel>;
  /** The broker takes no messages at the moment, and says so. */
  isBlocked(): boolean;
}

export function createPublisher({ name, log, keep, isBlocked }: PublisherOptions): Publisher {
  /** Both in the order of the calls; what is sent comes before what waits. */
  let sent = new Map<string, Entry>();
  let waiting: Entry[] = [];
  let head = 0;
  let bytes = 0;
  let counter = 0;
  /** When something was confirmed, or began to wait for that. */
  let progress = 0;
  /** A channel that is being closed, for another one. */
  let renewing: ConfirmChannel | undefined;
  /**
   * Something was confirmed on this channel. Until then one message is sent at a time: what is behind one that is refused
   * would come before it.
   */
  let isProven = false;
  let isClosed = false;
  let emptied: (() => void) | undefined;

  const kept = keep({
    name,
    async setup(channel) {
      channel.on('return', ({ properties }) => {
        const entry = sent.get(properties.messageId);
        if (entry) entry.returned = true;
      });
    },
    ready: () => pump(),
    lost() {
      isProven = false;
      for (const entry of sent.values()) entry.isCopy = true;
      const all = [...sent.values(), ...waiting.slice(head)];
      const now = performance.now();
      waiting = all.filter(({ deadline }) => deadline > now);
      // Nobody waits for them, and they would fill the window again.
      for (const entry of all) if (entry.deadline <= now) giveUp(entry);
      head = 0;
      sent = new Map();
      bytes = 0;
    },
  });

  function settle(entry: Entry, failure: Error | null): void {
    if (sent.get(entry.id) !== entry) return;
    // Other failures are the end of the channel; either way, `lost` follows, and it is sent again.
    if (failure?.message === 'message nacked') refused(entry);
    if (failure) return;
    sent.delete(entry.id);
    bytes -= entry.content.length;
    progress = performance.now();
    isProven = true;
    if (entry.returned) entry.reject(new Unroutable(`no queue takes messages for ${entry.routingKey}`));
    else entry.resolve();
    if (sent.size === 0 && head === waiting.length) emptied?.();
    pump();
  }

  function refused(entry: Entry): void {
    entry.wasRefused = true;
    if (renewing === kept.current) return;
    log.warn({ publisher: name, routing_key: entry.routingKey }, 'rabbitmq.message_refused');
    renew();
  }

  function renew(): void {
    renewing = kept.current;
    kept.renew();
  }

  function pump(): void {
    const channel = kept.current;
    if (!channel) return;
    const window = isProven ? WINDOW : 1;
    while (head < waiting.length && sent.size < window && bytes < WINDOW_BYTES) {
      const entry = waiting[head]!;
      entry.returned = false;
      try {
        const { exchange = '', routingKey, content, options, id, isCopy } = entry;
        const headers = { ...options?.headers, ...(isCopy && { [AGAIN]: true }) };
        const all = { ...options, headers, messageId: id };
        const done = (failure: Error | null) => settle(entry, failure);
        if (sent.size === 0) progress = performance.now();
        sent.set(id, entry);
        bytes += content.length;
        channel.publish(exchange, routingKey, content, all, done);
        head += 1;
      } catch {
        // The channel has just ended.
        sent.delete(entry.id);
        bytes -= entry.content.length;
        return;
      }
    }
    if (head === waiting.length) {
      waiting = [];
      head = 0;
    }
  }

  const giveUp = ({ wasRefused, reject }: Entry) =>
    reject(new Unavailable(`RabbitMQ ${wasRefused ? 'refused' : 'did not confirm'} a message in time`));

  /** Gives up what is overdue, and a channel that has stalled. */
  function look(): void {
    const now = performance.now();
    for (const entry of sent.values()) {
      if (entry.deadline > now) break;
      // Keeps its place in the window; settling it once more changes nothing.
      giveUp(entry);
    }
    while (head < waiting.length && waiting[head]!.deadline <= now) giveUp(waiting[head++]!);
    if (sent.size > 0 && now - progress > STALL_MS && !isBlocked()) renew();
  }
  const timer = setInterval(look, LOOK_MS);
  timer.unref();

  return {
    publish(message) {
      if (isClosed) return Promise.reject(new Unavailable('the connection to RabbitMQ was closed'));
      if (message.content.length > MAX_MESSAGE_BYTES) {
        const reason = `a message of ${message.content.length} bytes is larger than ${MAX_MESSAGE_BYTES}`;
        return Promise.reject(new RangeError(reason));
      }
      return new Promise((resolve, reject) => {
        // A copy of a message that is under way is told apart from it.
        const given = message.options?.messageId;
        const id = given === undefined || sent.has(given) ? `${given ?? ''}~${++counter}` : given;
        waiting.push({
          ...message,
          id,
          deadline: performance.now() + PUBLISH_MS,
          returned: false,
          wasRefused: false,
          isCopy: false,
          resolve,
          reject,
        });
        pump();
      });
    },
    async close() {
      isClosed = true;
      if (kept.current && sent.size + waiting.length > head) {
        const empty = new Promise<void>((resolve) => {
          emptied = resolve;
        });
        await withTimeout(empty, CLOSE_TIMEOUT_MS);
      }
      await kept.close();
      clearInterval(timer);
      const closed = new Unavailable('the connection to RabbitMQ was closed');
      for (const entry of [...sent.values(), ...waiting.slice(head)]) entry.reject(closed);
      sent.clear();
      waiting = [];
    },
  };
}
