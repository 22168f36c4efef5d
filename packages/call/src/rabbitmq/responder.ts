import type { ConsumeMessage, Options } from '@wellspring/amqp/channel';
import type { Log } from '@wellspring/core/log';
import { Problem } from '@wellspring/core/problem';
import { DISCOVER, encodeAnswer, encodeFailure, PROBE, UNKNOWN, WORKING } from './wire.ts';

export type Serve = (message: never, key: string | undefined) => Promise<unknown>;

/** Answers requests, probes and discovery that arrive in the queues of this process. */
export function createResponder(
  send: (queue: string, content: Buffer, options: Options.Publish) => void,
  log: Log,
) {
  /** Correlation ids of requests in progress here. */
  const working = new Set<string>();

  return async function answer(
    { content, properties }: ConsumeMessage,
    handler: Serve,
    address: string,
    queue: string,
  ): Promise<void> {
    const { replyTo, correlationId, type } = properties;
    if (typeof replyTo !== 'string') return;
    if (type === DISCOVER) {
      send(replyTo, Buffer.from(queue), { correlationId });
      return;
    }
    if (type === PROBE) {
      // Unknown: the request or its reply was lost with a connection of this process.
      send(replyTo, Buffer.alloc(0), { correlationId, type: working.has(correlationId) ? WORKING : UNKNOWN });
      return;
    }
    working.add(correlationId);
    let reply: Buffer;
    try {
      const { message, key } = JSON.parse(content.toString()) as { message: unknown; key?: string };
      reply = encodeAnswer(await handler(message as never, key));
    } catch (error) {
      if (!(error instanceof Problem)) {
        log.error({ address, error: error instanceof Error ? error.stack : String(error) }, 'call.failed');
      }
      reply = encodeFailure(error);
    }
    working.delete(correlationId);
    send(replyTo, reply, { correlationId });
  };
}
