import { type ByteBudget, createHold } from '@wellspring/core/byte-budget';
import type { Log } from '@wellspring/core/log';
import type { Options } from 'amqplib';
import { type ChannelEvents, openRecoveringChannel, type RecoveringChannel } from './channel.ts';
import type { Connection } from './connection.ts';

/** A channel for messages that are not confirmed. */
export interface CallChannel extends RecoveringChannel {
  /**
   * Sends a message once. It is lost without a channel, and during an alarm of the broker when the messages that wait
   * for its end have used up the budget.
   */
  publish(exchange: string, routingKey: string, content: Buffer, options: Options.Publish): void;
}

/** Per message, of the properties and of what amqplib keeps. */
const MESSAGE_BYTES = 512;

/** @param budget for messages that wait for the end of an alarm; beyond it messages are lost */
export function openCallChannel(
  connection: Connection,
  budget: ByteBudget,
  events: ChannelEvents,
  log: Log,
): CallChannel {
  /** Messages during an alarm: the broker does not read them, so they stay in this process. */
  const unsent = createHold(budget, 'call');
  const channel = openRecoveringChannel(
    connection,
    (model) => model.createChannel(),
    {
      ...events,
      async setup(opened) {
        opened.on('drain', unsent.release);
        await events.setup(opened);
      },
      lost() {
        unsent.release();
        events.lost?.();
      },
    },
    log,
  );
  return Object.assign(channel, {
    publish(exchange, routingKey, content, options) {
      if (!connection.blocked) unsent.release();
      else if (!unsent.take(content.length + MESSAGE_BYTES)) return;
      try {
        channel.current?.publish(exchange, routingKey, content, options);
      } catch {
        // The channel was closed at this moment; `lost` follows.
      }
    },
  } satisfies Pick<CallChannel, 'publish'>);
}
