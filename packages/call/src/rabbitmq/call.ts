import { setTimeout as pause } from 'node:timers/promises';
import { type Channel, type ConsumeMessage, consume } from '@wellspring/amqp/channel';
import type { Amqp } from '@wellspring/amqp/client';
import { newSecret } from '@wellspring/core/ids';
import type { Log } from '@wellspring/core/log';
import { Problem } from '@wellspring/core/problem';
import { withTimeout } from '@wellspring/core/with-timeout';
import { type Call, CallFailed } from '../port.ts';
import { createPendingRequests } from './pending-requests.ts';
import { decodeAnswer, encode, encodeAnswer, encodeFailure, type Request, type Type } from './wire.ts';

export interface RabbitCallOptions {
  amqp: Amqp;
  log: Log;
  /** Prefix of the exchange's name; default `wellspring.`. */
  prefix?: string;
  /** Unique name of this process. */
  member: string;
  /** Addresses whose requests go to the process that owns their key. */
  keyed: ReadonlySet<string>;
  /** The owner of a key; undefined: none. @throws Error when it is unknown */
  ownerOf(key: string): Promise<string | undefined>;
}

type Serve = (message: never, key: string | undefined) => Promise<unknown>;

/** Retry delay while no server is known or nobody owns the key. */
const RETRY_DELAY_MS = 50;
const WHO_TIMEOUT_MS = 500;
/** Delay of the answer `here` per request in progress, so that the least busy server answers first. */
const BUSY_DELAY_MS = 5;
const MAX_BUSY_DELAY_MS = 200;

/**
 * Requests and replies over RabbitMQ; nothing is durable. Each process has one exclusive queue, bound to its own name and
 * to the addresses that it serves. A request goes to the process that owns its key, or else to the
 * first server of the address that answers a question, which a dead, frozen or busy one does not. A request without a
 * server is retried until its deadline; it fails within about a second when its server dies, within seconds when its server
 * is frozen.
 *
 * Every connection declares a queue with a new name: a queue lives on one node of the cluster and is locked while that
 * node is down.
 */
export function createRabbitCall({
  amqp,
  log,
  prefix = 'wellspring.',
  member,
  keyed,
  ownerOf,
}: RabbitCallOptions): Call {
  const replyAddresses = new Map<string, (message: unknown) => void>();
  const served = new Map<string, Serve>();
  /** Ids of requests in progress here. */
  const working = new Set<string>();
  /** Who serves an address? Waits for the first that says so. */
  const asking = new Map<string, (server: string | undefined) => void>();
  let queue = '';
  let isClosed = false;
  const exchange = `${prefix}call`;
  const bindings = (addresses: Iterable<string>) => [...addresses].filter((address) => !keyed.has(address));

  const pending = createPendingRequests(send);
  const channel = amqp.openChannel({
    name: 'call',
    async setup(channel) {
      channel.on('return', ({ properties: { type, correlationId } }) => {
        asking.get(correlationId)?.(undefined);
        pending.returned(type, correlationId);
      });
      await channel.assertExchange(exchange, 'direct', { durable: true });
      ({ queue } = await channel.assertQueue('', { exclusive: true, autoDelete: true }));
      await consume(channel, queue, receive, { noAck: true });
      await channel.bindQueue(queue, exchange, member);
    },
    ready(channel) {
      for (const address of bindings(served.keys())) bind(channel, address);
    },
    lost: () => pending.lost(),
  });

  const bind = (to: Channel | undefined, address: string) =>
    // When the channel is lost in this moment, the next one binds it.
    void to?.bindQueue(queue, exchange, address).catch(() => {});

  /** A message that cannot be sent is lost, like one without a receiver. */
  function send(to: string, type: Type, correlationId: string, content: Buffer = Buffer.alloc(0)): void {
    const mandatory = type === 'who' || type === 'request' || type === 'probe';
    try {
      channel.current?.publish(exchange, to, content, { type, correlationId, replyTo: member, mandatory });
    } catch {
      // The channel was closed in this moment; `lost` follows.
    }
  }

  function receive({ content, fields, properties }: ConsumeMessage): void {
    const { correlationId, replyTo } = properties;
    const type = properties.type as Type;
    if (type === 'who') {
      if (!served.has(fields.routingKey)) return;
      const delay = Math.min(MAX_BUSY_DELAY_MS, working.size * BUSY_DELAY_MS);
      if (delay === 0) send(replyTo, 'here', correlationId);
      else setTimeout(send, delay, replyTo, 'here', correlationId);
    } else if (type === 'here') asking.get(correlationId)?.(replyTo);
    else if (type === 'request') void answer(content, replyTo, correlationId);
    else if (type === 'probe') {
      send(replyTo, working.has(correlationId) ? 'working' : 'unknown', correlationId);
    } else if (type === 'reply') replyAddresses.get(correlationId)?.(JSON.parse(content.toString()));
    else pending.received(type, correlationId, content);
  }

  async function answer(content: Buffer, to: string, id: string): Promise<void> {
    const { address, message, key } = JSON.parse(content.toString()) as Request;
    const handler = served.get(address);
    if (!handler) return send(to, 'absent', id);
    working.add(id);
    let reply: Buffer;
    try {
      reply = encodeAnswer(await handler(message as never, key));
    } catch (error) {
      if (!(error instanceof Problem)) {
        log.error({ address, error: error instanceof Error ? error.stack : String(error) }, 'call.failed');
      }
      reply = encodeFailure(error);
    }
    working.delete(id);
    send(to, 'answer', id, reply);
  }

  /** The process that serves the address; undefined: no process serves it now. */
  async function serverOf(address: string, key: string | undefined): Promise<string | undefined> {
    if (keyed.has(address)) {
      if (key === undefined) throw new Error(`A request to ${address} needs a key.`);
      return ownerOf(key).catch(() => undefined);
    }
    if (!channel.current) return undefined;
    const id = newSecret();
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    asking.set(id, resolve);
    send(address, 'who', id);
    return withTimeout(promise, WHO_TIMEOUT_MS).finally(() => asking.delete(id));
  }

  return {
    async request(address, message, { key, deadlineMs }) {
      const deadline = AbortSignal.timeout(deadlineMs);
      let content: Buffer;
      try {
        content = encode({ address, message, ...(key === undefined ? {} : { key }) } satisfies Request);
      } catch (error) {
        log.error({ address, error: String(error) }, 'call.failed');
        throw new CallFailed(`The server of ${address} failed.`);
      }
      while (!deadline.aborted && !isClosed) {
        const server = await serverOf(address, key);
        if (server && channel.current && !deadline.aborted) {
          const reply = await pending.ask(server, address, content, deadline);
          if (reply) return decodeAnswer(reply, address);
        }
        await pause(RETRY_DELAY_MS, undefined, { signal: deadline }).catch(() => {});
      }
      throw new CallFailed(`The request failed: no process serves ${address}.`);
    },

    serve(address, handler, signal) {
      if (signal.aborted) return;
      served.set(address, handler);
      for (const one of bindings([address])) bind(channel.current, one);
      const end = () => {
        if (served.get(address) !== handler) return;
        served.delete(address);
        void channel.current?.unbindQueue(queue, exchange, address).catch(() => {});
      };
      signal.addEventListener('abort', end, { once: true });
    },

    openReplyAddress() {
      const id = newSecret();
      const arrived = Promise.withResolvers<unknown>();
      replyAddresses.set(id, arrived.resolve);
      return {
        address: `${member}|${id}`,
        receive: (timeoutMs) => withTimeout(arrived.promise, timeoutMs),
        close() {
          replyAddresses.delete(id);
          // Ends a pending receive.
          arrived.resolve(undefined);
        },
      };
    },

    reply(address, message) {
      const [to, id] = address.split('|');
      if (to && id) send(to, 'reply', id, encode(message));
    },

    ping: () => amqp.ping(),

    async close() {
      isClosed = true;
      pending.close();
      for (const deliver of replyAddresses.values()) deliver(undefined);
      replyAddresses.clear();
      await channel.close();
    },
  };
}
