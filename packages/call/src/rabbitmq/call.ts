import {
  type Channel,
  type ConsumeMessage,
  consume,
  type Options,
  type RecoveringChannel,
} from '@wellspring/amqp/channel';
import type { Amqp } from '@wellspring/amqp/client';
import { newSecret } from '@wellspring/core/ids';
import type { Log } from '@wellspring/core/log';
import { createLru } from '@wellspring/core/lru';
import { withTimeout } from '@wellspring/core/with-timeout';
import { type Call, CallFailed } from '../port.ts';
import { createPendingRequests } from './pending-requests.ts';
import { createRegistry } from './registry.ts';
import { createResponder, type Serve } from './responder.ts';
import { DISCOVER, decodeAnswer, encode, REPLY_TO, UNKNOWN, WORKING } from './wire.ts';

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

/** Retry delay while no server is known or nobody owns the key. */
const RETRY_DELAY_MS = 50;
const MAX_LAST_OWNERS = 10_000;
/**
 * Requests and replies over RabbitMQ's direct reply-to; nothing is durable. A request without a server is retried until
 * its deadline; one whose server has died fails within about a second.
 *
 * Every connection of a server declares an exclusive queue with a new name: a queue lives on one node of the cluster and
 * is locked while that node is down. The queues of an address are discovered through an exchange.
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
  const served = new Map<string, { handler: Serve; channel: RecoveringChannel }>();
  /** Reply-to address of this process's channel; undefined without a channel. */
  let ownReplyTo: string | undefined;
  let isClosed = false;
  const exchange = `${prefix}call`;
  const declare = (channel: Channel) => channel.assertExchange(exchange, 'direct', { durable: true });
  const registry = createRegistry((address) => {
    const correlationId = `${DISCOVER}:${address}`;
    publish(exchange, address, Buffer.alloc(0), { correlationId, replyTo: REPLY_TO, type: DISCOVER });
  });

  const send = (queue: string, content: Buffer, options: Options.Publish) =>
    publish('', queue, content, options);
  const pending = createPendingRequests(send, registry.remove);
  const answer = createResponder(send, log);

  const channel = amqp.openChannel({
    name: 'call',
    async setup(channel) {
      channel.on('return', ({ properties: { correlationId } }) => pending.settle(correlationId, 'returned'));
      await declare(channel);
      await consume(channel, REPLY_TO, onReply, { noAck: true });
      ownReplyTo = await resolveReplyTo(channel);
    },
    lost() {
      ownReplyTo = undefined;
      pending.lost();
    },
  });

  /** The broker reveals the reply-to address of a channel only to receivers of its messages. */
  async function resolveReplyTo(channel: Channel): Promise<string> {
    const { queue } = await channel.assertQueue('', { exclusive: true, autoDelete: true });
    const address = Promise.withResolvers<string>();
    await consume(channel, queue, ({ properties }) => address.resolve(properties.replyTo), { noAck: true });
    channel.sendToQueue(queue, Buffer.alloc(0), { replyTo: REPLY_TO });
    return address.promise;
  }

  function onReply({ content, properties: { correlationId, type } }: ConsumeMessage): void {
    const [what, address = ''] = String(correlationId).split(':');
    const deliver = replyAddresses.get(correlationId);
    if (what === DISCOVER) {
      registry.add(address, content.toString());
      for (const wake of [...retrying]) wake();
      return;
    }
    if (deliver) deliver(JSON.parse(content.toString()));
    else if (type === WORKING) pending.heard(correlationId);
    else pending.settle(correlationId, type === UNKNOWN ? 'lost' : { content });
  }

  /** A message that cannot be sent is lost, like one without a receiver. */
  function publish(to: string, key: string, content: Buffer, options: Options.Publish): void {
    try {
      channel.current?.publish(to, key, content, options);
    } catch {
      // The channel was closed in this moment; `lost` follows.
    }
  }

  /** Routing key of the servers of an address, or of the one server that owns the request's key. */
  const routeOf = (address: string, owner: string) => (keyed.has(address) ? `${address}@${owner}` : address);

  /** Last known owners, for the time in which the owner is unknown. */
  const lastOwners = createLru<string>(MAX_LAST_OWNERS);
  async function routeFor(address: string, key: string | undefined): Promise<string | undefined> {
    if (!keyed.has(address)) return address;
    if (key === undefined) throw new Error(`A request to ${address} needs a key.`);
    let owner: string | undefined;
    try {
      owner = await ownerOf(key);
      if (owner) lastOwners.set(key, owner);
    } catch {
      owner = lastOwners.get(key);
    }
    return owner === undefined ? undefined : routeOf(address, owner);
  }

  /** Requests that wait for a server, woken by discovery. */
  const retrying = new Set<() => void>();
  const retryDelay = (deadline: AbortSignal) =>
    new Promise<void>((resolve) => {
      const done = () => {
        retrying.delete(done);
        clearTimeout(timer);
        deadline.removeEventListener('abort', done);
        resolve();
      };
      const timer = setTimeout(done, RETRY_DELAY_MS);
      retrying.add(done);
      deadline.addEventListener('abort', done, { once: true });
    });

  return {
    async request(address, message, { key, deadlineMs }) {
      const deadline = AbortSignal.timeout(deadlineMs);
      let content: Buffer;
      try {
        content = encode({ message, ...(key === undefined ? {} : { key }) });
      } catch (error) {
        log.error({ address, error: String(error) }, 'call.failed');
        throw new CallFailed(`The server of ${address} failed.`);
      }
      while (!deadline.aborted && !isClosed) {
        const route = await routeFor(address, key);
        const queue = route && registry.find(route);
        const reply =
          queue && channel.current && (await pending.ask({ route, queue }, address, content, deadline));
        if (reply) return decodeAnswer(reply, address);
        await retryDelay(deadline);
      }
      throw new CallFailed(`The request failed: nobody serves ${address}.`);
    },

    serve(address, handler, signal) {
      if (signal.aborted) return;
      const known = served.get(address);
      if (known) known.handler = handler;
      else {
        const opened = amqp.openChannel({
          name: `call.${address}`,
          async setup(channel) {
            await declare(channel);
            const { queue } = await channel.assertQueue('', { exclusive: true, autoDelete: true });
            await consume(
              channel,
              queue,
              (one) => void answer(one, served.get(address)?.handler ?? handler, address, queue),
              { noAck: true },
            );
            await channel.bindQueue(queue, exchange, routeOf(address, member));
          },
        });
        served.set(address, { handler, channel: opened });
      }
      const end = () => {
        const current = served.get(address);
        if (current?.handler !== handler) return;
        served.delete(address);
        void current.channel.close();
      };
      signal.addEventListener('abort', end, { once: true });
    },

    openReplyAddress() {
      const id = newSecret();
      const arrived = Promise.withResolvers<unknown>();
      replyAddresses.set(id, arrived.resolve);
      return {
        // Without a channel no job can be published either.
        address: `${ownReplyTo ?? ''}|${id}`,
        receive: (timeoutMs) => withTimeout(arrived.promise, timeoutMs),
        close() {
          replyAddresses.delete(id);
          // Ends a pending receive.
          arrived.resolve(undefined);
        },
      };
    },

    reply(address, message) {
      const [to, correlationId] = address.split('|');
      if (!to || !correlationId) return;
      send(to, encode(message), { correlationId });
    },

    ping: () => amqp.ping(),

    async close() {
      isClosed = true;
      pending.close();
      for (const { channel } of served.values()) await channel.close();
      for (const deliver of replyAddresses.values()) deliver(undefined);
      replyAddresses.clear();
      await channel.close();
    },
  };
}
