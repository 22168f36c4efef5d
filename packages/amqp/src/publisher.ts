import type { ByteBudget } from '@wellspring/core/byte-budget';
import { createLinkedList } from '@wellspring/core/linked-list';
import type { Log } from '@wellspring/core/log';
import { NotSent, Unavailable } from '@wellspring/core/unavailable';
import { withTimeout } from '@wellspring/core/with-timeout';
import type { ConfirmChannel, Options } from 'amqplib';
import { type ChannelEvents, openRecoveringChannel } from './channel.ts';
import type { Blocked, Connection } from './connection.ts';
import { overdue } from './overdue.ts';

/** Header of messages that are sent once more because they were not confirmed: possible duplicates with the same id. */
export const REDELIVERED = 'x-redelivered';

export interface Message {
  /** Name of a queue: messages are sent to the default exchange. */
  routingKey: string;
  content: Buffer;
  /** Messages of one key are enqueued in the order of the calls, also when one fails and is published once more. */
  key?: string;
  options?: Options.Publish;
}

/** No queue is bound for the message. */
export class Unroutable extends Unavailable {
  override readonly name = 'Unroutable';
}

/**
 * Publishes with confirms, in the order of the calls. Messages that were unconfirmed when the connection was lost are
 * resent before newer ones, with the header REDELIVERED: duplicates are possible, first arrivals stay in order. One that is
 * not confirmed in time is given up, and with it the later ones of its key that would be sent without it.
 *
 * Messages that the broker refuses are resent on a new channel: in a cluster, a channel opened while the leader of a
 * quorum queue died refuses everything for that queue until the dead node is back (`rabbit_fifo_client` of 3.10).
 *
 * A byte budget of the process bounds unconfirmed messages. While an alarm blocks publishers, messages fail after a second.
 */
export interface Publisher {
  /**
   * Resolves when the broker has confirmed the message; in a quorum queue it is durable then.
   * @throws Unroutable when no queue is bound for it; Unavailable when it was not confirmed in time (it may have been
   * enqueued all the same); NotSent while the broker blocks publishers; RangeError when it is larger than MAX_MESSAGE_BYTES
   */
  publish(message: Message): Promise<void>;
  /** Waits at most 2 seconds for outstanding confirms. */
  close(): Promise<void>;
}

/** Default limit of RabbitMQ 4. */
export const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;
const PUBLISH_TIMEOUT_MS = 10_000;
/** Unconfirmed messages; more would only add latency. */
const MAX_UNCONFIRMED = 1_000;
/** A message is sent or refused within this time after the broker began to block publishers. */
const BLOCKED_TIMEOUT_MS = 1_000;
/** Assumed size of the properties of a message. */
const PROPERTIES_BYTES = 512;
const CHECK_INTERVAL_MS = 250;
const CLOSE_TIMEOUT_MS = 2_000;
/** A channel without confirms for this long is replaced: RabbitMQ never confirms messages for a queue without a leader. */
const STALL_TIMEOUT_MS = 2_000;

interface Entry extends Message {
  id: string;
  deadline: number;
  returned?: boolean;
  wasRefused?: boolean;
  isRedelivered?: boolean;
  /** Gives the bytes of a sent message back. */
  release?: (() => void) | undefined;
  /** Removes the message from the waiting list. */
  leave(): void;
  resolve(): void;
  reject(error: Error): void;
}

export interface PublisherOptions {
  /** For the log. */
  name: string;
  log: Log;
  connection: Connection;
  unconfirmed: ByteBudget;
  /** Default PUBLISH_TIMEOUT_MS. */
  timeoutMs?: number;
}

export function createPublisher(options: PublisherOptions): Publisher {
  const { name, log, connection, unconfirmed, timeoutMs = PUBLISH_TIMEOUT_MS } = options;
  /** Both in the order of the calls; `sent` precedes `waiting`. */
  const sent = new Map<string, Entry>();
  const waiting = createLinkedList<Entry>();
  /** Waiting for bytes of the budget. */
  let isStarved = false;
  const closing = new AbortController();
  let counter = 0;
  /** Time of the last confirm, or of the first message that waits for one. */
  let lastProgress = 0;
  /** The channel that is being replaced. */
  let reopening: ConfirmChannel | undefined;
  /**
   * The channel has confirmed a message. Until then one message is sent at a time: those after a refused one would
   * overtake it.
   */
  let isProven = false;
  let isClosed = false;
  let emptied: (() => void) | undefined;

  const events: ChannelEvents<ConfirmChannel> = {
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
      for (const entry of sent.values()) entry.isRedelivered = true;
      const all = takeAll();
      // Their callers have timed out; resending them would only fill the window.
      const gone = new Set(overdue(all, performance.now()));
      for (const entry of all) {
        if (gone.has(entry)) expire(entry);
        else wait(entry);
      }
    },
  };
  const recovering = openRecoveringChannel(connection, (model) => model.createConfirmChannel(), events, log);

  function settle(entry: Entry, failure: Error | null): void {
    if (sent.get(entry.id) !== entry) return;
    // Any failure closes the channel: `lost` follows and resends the entry.
    if (failure?.message === 'message nacked') refused(entry);
    if (failure) return;
    sent.delete(entry.id);
    releaseBytes(entry);
    lastProgress = performance.now();
    isProven = true;
    if (entry.returned) entry.reject(new Unroutable(`No queue is bound for ${entry.routingKey}.`));
    else entry.resolve();
    if (isIdle()) emptied?.();
    pump();
  }

  function refused(entry: Entry): void {
    entry.wasRefused = true;
    if (reopening === recovering.current) return;
    log.warn({ publisher: name, routing_key: entry.routingKey }, 'rabbitmq.message_refused');
    reopen();
  }

  function reopen(): void {
    reopening = recovering.current;
    recovering.reopen();
  }

  function releaseBytes(entry: Entry): void {
    entry.release?.();
    entry.release = undefined;
  }

  const isIdle = () => sent.size + waiting.size === 0;

  function wait(entry: Entry): void {
    entry.leave = waiting.append(entry);
  }

  /** Takes all messages out, those that were sent first, and gives their bytes back. */
  function takeAll(): Entry[] {
    const all = [...sent.values(), ...waiting];
    sent.clear();
    for (const entry of all) {
      entry.leave();
      releaseBytes(entry);
    }
    return all;
  }

  const sizeOf = ({ content }: Message) => content.length + PROPERTIES_BYTES;

  /** Sends on when the budget has room for the next message. */
  async function starve(entry: Entry): Promise<void> {
    if (isStarved) return;
    isStarved = true;
    const release = await unconfirmed.take(sizeOf(entry), name, closing.signal).catch(() => undefined);
    if (!release) return;
    isStarved = false;
    if (waiting.first === entry) entry.release = release;
    else release();
    pump();
  }

  function pump(): void {
    const channel = recovering.current;
    if (!channel || connection.blocked) return;
    const window = isProven ? MAX_UNCONFIRMED : 1;
    while (waiting.first && sent.size < window) {
      const entry = waiting.first;
      entry.release ??= unconfirmed.tryTake(sizeOf(entry), name);
      if (!entry.release) return void starve(entry);
      entry.returned = false;
      try {
        const { routingKey, content, options, id, isRedelivered } = entry;
        const headers = { ...options?.headers, ...(isRedelivered && { [REDELIVERED]: true }) };
        const all = { ...options, headers, messageId: id };
        const done = (failure: Error | null) => settle(entry, failure);
        if (sent.size === 0) lastProgress = performance.now();
        sent.set(id, entry);
        channel.publish('', routingKey, content, all, done);
        entry.leave();
      } catch {
        // The channel was closed at this moment.
        sent.delete(entry.id);
        releaseBytes(entry);
        return;
      }
    }
  }

  const expire = ({ wasRefused, reject }: Entry) =>
    reject(new Unavailable(`RabbitMQ ${wasRefused ? 'refused' : 'did not confirm'} a message in time.`));

  /** Expires overdue messages and replaces a stalled channel. */
  function check(): void {
    const now = performance.now();
    for (const entry of sent.values()) {
      if (entry.deadline > now) break;
      // It keeps its place in the window; a second settlement has no effect.
      expire(entry);
    }
    for (const entry of overdue(waiting, now)) {
      entry.leave();
      releaseBytes(entry);
      expire(entry);
    }
    const alarm = connection.blocked;
    if (alarm) {
      lastProgress = now;
      if (now - alarm.since > BLOCKED_TIMEOUT_MS) refuseWaiting(alarm);
    } else if (sent.size > 0 && now - lastProgress > STALL_TIMEOUT_MS) reopen();
    else pump();
    if (!isIdle()) return;
    clearInterval(timer);
    timer = undefined;
  }

  const refusalOf = ({ reason }: Blocked, wasSent = false) =>
    new (wasSent ? Unavailable : NotSent)(`RabbitMQ blocks publishers: ${reason}.`);
  function refuseWaiting(alarm: Blocked): void {
    for (const entry of waiting) {
      entry.leave();
      releaseBytes(entry);
      entry.reject(refusalOf(alarm, entry.isRedelivered));
    }
  }
  /** Only while messages are under way: an idle process sleeps. */
  let timer: NodeJS.Timeout | undefined;

  return {
    publish(message) {
      if (isClosed) return Promise.reject(new Unavailable('The connection to RabbitMQ was closed.'));
      if (message.content.length > MAX_MESSAGE_BYTES) {
        const reason = `A message of ${message.content.length} bytes exceeds the limit of ${MAX_MESSAGE_BYTES}.`;
        return Promise.reject(new RangeError(reason));
      }
      const alarm = connection.blocked;
      if (alarm && performance.now() - alarm.since > BLOCKED_TIMEOUT_MS) {
        return Promise.reject(refusalOf(alarm));
      }
      return new Promise((resolve, reject) => {
        // Two messages with one id in flight need distinct ids for their confirms.
        const given = message.options?.messageId;
        const id = given === undefined || sent.has(given) ? `${given ?? ''}~${++counter}` : given;
        const deadline = performance.now() + timeoutMs;
        wait({ ...message, id, deadline, leave() {}, resolve, reject });
        timer ??= setInterval(check, CHECK_INTERVAL_MS).unref();
        pump();
      });
    },
    async close() {
      isClosed = true;
      if (recovering.current && !isIdle()) {
        const empty = new Promise<void>((resolve) => {
          emptied = resolve;
        });
        await withTimeout(empty, CLOSE_TIMEOUT_MS);
      }
      closing.abort();
      await recovering.close();
      clearInterval(timer);
      const closed = new Unavailable('The connection to RabbitMQ was closed.');
      for (const entry of takeAll()) entry.reject(closed);
    },
  };
}
