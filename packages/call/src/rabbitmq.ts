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
import { Problem } from '@wellspring/core/problem';
import { type Call, CallFailed } from './port.ts';
import { createDirectory } from './rabbitmq-directory.ts';
import { decodeAnswer, encode, encodeAnswer, encodeFailure } from './wire.ts';

type Serve = (message: never, key: string | undefined) => Promise<unknown>;

export interface RabbitCallOptions {
  amqp: Amqp;
  log: Log;
  /** What names of queues begin with; default `wellspring.`. */
  prefix?: string;
  /** Of this process, unlike that of every other. */
  member: string;
  /** Addresses whose requests go to the process that holds their key. */
  keyed: ReadonlySet<string>;
  /** The member that holds a key now; undefined: nobody. @throws Error when it cannot be told */
  holderOf(key: string): Promise<string | undefined>;
}

const REPLY_TO = 'amq.rabbitmq.reply-to';
/** How long a request rests when nobody serves its address, or holds its key, at the moment. */
const LOOK_AGAIN_MS = 50;
/** How often it is asked whether somebody still serves a request that is not answered. */
const PROBE_MS = 1_000;
const PROBE = 'probe';
/** Answer a probe: nothing is known of that request, or it is being worked on. */
const UNKNOWN = 'unknown';
const WORKING = 'working';
/** A server that answers no probe for so long is gone, with the node of the broker that had its queue. */
const SILENT_MS = 5_000;
/** Asks who serves an address; with a colon and the address, or that of one member, the correlation of its answers. */
const SEEK = 'seek';

interface Waiting {
  queue: string;
  since: number;
  /** performance.now() at which the server has last answered a probe. */
  heardAt: number;
  settle(how: { content: Buffer } | 'returned' | 'lost'): void;
}

/**
 * Requests and replies over RabbitMQ's direct reply-to: nothing of them is durable. A request that nobody can take
 * rests until its deadline; one whose server has died fails within about a second.
 *
 * Every connection of a server has a queue of its own, with a new name: it is on one node of a cluster, and while that is
 * down, out of reach and locked. An exchange leads to all of them: it is asked who is there.
 */
export function createRabbitCall({
  amqp,
  log,
  prefix = 'wellspring.',
  member,
  keyed,
  holderOf,
}: RabbitCallOptions): Call {
  const waiting = new Map<string, Waiting>();
  const mailboxes = new Map<string, (message: unknown) => void>();
  const served = new Map<string, { handler: Serve; kept: RecoveringChannel }>();
  /** Requests that are being answered here, by their correlation. */
  const working = new Set<string>();
  /** Where replies to this process go; undefined while it is not known. */
  let own: string | undefined;
  let isClosed = false;
  const exchange = `${prefix}call`;
  const declare = (channel: Channel) => channel.assertExchange(exchange, 'direct', { durable: true });
  const directory = createDirectory((address) => {
    const correlationId = `${SEEK}:${address}`;
    publish(exchange, address, Buffer.alloc(0), { correlationId, replyTo: REPLY_TO, type: SEEK });
  });

  const kept = amqp.openChannel({
    name: 'call',
    async setup(channel) {
      channel.on('return', ({ properties: { correlationId } }) =>
        waiting.get(correlationId)?.settle('returned'),
      );
      await declare(channel);
      await consume(channel, REPLY_TO, onReply, { noAck: true });
      own = await ownAddress(channel);
    },
    lost() {
      own = undefined;
      // Their answers would have come to the channel that is gone.
      for (const one of [...waiting.values()]) one.settle('lost');
    },
  });

  /** The broker tells the address of a channel only to whoever gets a message from it. */
  async function ownAddress(channel: Channel): Promise<string> {
    const { queue } = await channel.assertQueue('', { exclusive: true, autoDelete: true });
    const address = Promise.withResolvers<string>();
    await consume(channel, queue, ({ properties }) => address.resolve(properties.replyTo), { noAck: true });
    channel.sendToQueue(queue, Buffer.alloc(0), { replyTo: REPLY_TO });
    return address.promise;
  }

  function onReply({ content, properties: { correlationId, type } }: ConsumeMessage): void {
    const [what, address = ''] = String(correlationId).split(':');
    const mailbox = mailboxes.get(correlationId);
    if (what === SEEK) {
      directory.found(address, content.toString());
      for (const wake of [...resting]) wake();
      return;
    }
    if (mailbox) mailbox(JSON.parse(content.toString()));
    else if (type === WORKING) heard(correlationId);
    else waiting.get(correlationId)?.settle(type === UNKNOWN ? 'lost' : { content });
  }

  /** On the channel of now; what cannot be sent is lost, like what was sent to nobody. */
  function publish(to: string, key: string, content: Buffer, options: Options.Publish): void {
    try {
      kept.current?.publish(to, key, content, options);
    } catch {
      // The channel has just ended, and `lost` follows.
    }
  }

  const send = (queue: string, content: Buffer, options: Options.Publish) =>
    publish('', queue, content, options);

  function heard(correlationId: string): void {
    const one = waiting.get(correlationId);
    if (one) one.heardAt = performance.now();
  }

  /** Where a server is found: all who serve an address, or the one that holds the key. */
  const placeOf = (address: string, of: string) => (keyed.has(address) ? `${address}@${of}` : address);

  const prober = setInterval(() => {
    const now = performance.now();
    for (const [id, { queue, since, heardAt, settle }] of waiting) {
      if (now - since < PROBE_MS) continue;
      if (now - heardAt > SILENT_MS) {
        settle('returned');
        continue;
      }
      send(queue, Buffer.alloc(0), {
        mandatory: true,
        correlationId: id,
        replyTo: REPLY_TO,
        type: PROBE,
      });
    }
  }, PROBE_MS);
  prober.unref();

  /** Makes a request once. Gives the answer; undefined: nobody was there to take it. */
  function ask(
    { place, queue }: { place: string; queue: string },
    address: string,
    content: Buffer,
    deadline: AbortSignal,
  ): Promise<Buffer | undefined> {
    if (!kept.current) return Promise.resolve(undefined);
    const id = newSecret();
    return new Promise<Buffer | undefined>((resolve, reject) => {
      const since = performance.now();
      const end = () => {
        waiting.delete(id);
        deadline.removeEventListener('abort', late);
      };
      const late = () => {
        end();
        reject(new CallFailed(`${address} did not answer in time`));
      };
      if (deadline.aborted) return late();
      deadline.addEventListener('abort', late, { once: true });
      waiting.set(id, {
        queue,
        since,
        heardAt: since,
        settle(how) {
          end();
          if (how === 'returned') directory.gone(place, queue);
          if (how === 'lost')
            reject(new CallFailed(`a connection to RabbitMQ was lost before ${address} answered`));
          // A probe that came back: whoever had taken it is gone.
          else if (how === 'returned' && performance.now() - since >= PROBE_MS) {
            reject(new CallFailed(`whoever served ${address} is gone`));
          } else resolve(how === 'returned' ? undefined : how.content);
        },
      });
      send(queue, content, { mandatory: true, correlationId: id, replyTo: REPLY_TO });
    });
  }

  /** The last known holder of a key, while it cannot be told. */
  const holders = new Map<string, string>();
  async function placeFor(address: string, key: string | undefined): Promise<string | undefined> {
    if (!keyed.has(address)) return address;
    if (key === undefined) throw new Error(`a request to ${address} needs a key`);
    let holder: string | undefined;
    try {
      holder = await holderOf(key);
      if (holder) holders.set(key, holder);
      if (holders.size > 10_000) holders.delete(holders.keys().next().value!);
    } catch {
      holder = holders.get(key);
    }
    return holder === undefined ? undefined : placeOf(address, holder);
  }

  /** Until somebody was found, or another look is worth while. */
  const resting = new Set<() => void>();
  const rest = (deadline: AbortSignal) =>
    new Promise<void>((resolve) => {
      const done = () => {
        resting.delete(done);
        clearTimeout(timer);
        deadline.removeEventListener('abort', done);
        resolve();
      };
      const timer = setTimeout(done, LOOK_AGAIN_MS);
      resting.add(done);
      deadline.addEventListener('abort', done, { once: true });
    });

  async function answer(
    { content, properties }: ConsumeMessage,
    handler: Serve,
    address: string,
    queue: string,
  ): Promise<void> {
    const { replyTo, correlationId, type } = properties;
    if (typeof replyTo !== 'string') return;
    if (type === SEEK) {
      send(replyTo, Buffer.from(queue), { correlationId });
      return;
    }
    if (type === PROBE) {
      // Unknown: it went down with a connection of this process, or its answer did.
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
    // A caller whose connection was lost does not wait any more.
    send(replyTo, reply, { correlationId });
  }

  return {
    async request(address, message, { key, deadlineMs }) {
      const deadline = AbortSignal.timeout(deadlineMs);
      let content: Buffer;
      try {
        content = encode({ message, ...(key === undefined ? {} : { key }) });
      } catch (error) {
        log.error({ address, error: String(error) }, 'call.failed');
        throw new CallFailed(`${address} failed`);
      }
      while (!deadline.aborted && !isClosed) {
        const place = await placeFor(address, key);
        const queue = place && directory.find(place);
        const reply = queue && (await ask({ place, queue }, address, content, deadline));
        if (reply) return decodeAnswer(reply, address);
        await rest(deadline);
      }
      throw new CallFailed(`nobody serves ${address}`);
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
            await channel.bindQueue(queue, exchange, placeOf(address, member));
          },
        });
        served.set(address, { handler, kept: opened });
      }
      const end = () => {
        const current = served.get(address);
        if (current?.handler !== handler) return;
        served.delete(address);
        void current.kept.close();
      };
      signal.addEventListener('abort', end, { once: true });
    },

    open() {
      const id = newSecret();
      const arrived = Promise.withResolvers<unknown>();
      mailboxes.set(id, arrived.resolve);
      return {
        // Without a connection no job gets out either.
        address: `${own ?? ''}|${id}`,
        receive(timeoutMs) {
          return new Promise((resolve) => {
            const timer = setTimeout(() => resolve(undefined), timeoutMs);
            arrived.promise.then((message) => {
              clearTimeout(timer);
              resolve(message);
            });
          });
        },
        close() {
          mailboxes.delete(id);
          // Ends a receive that is still waiting.
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
      clearInterval(prober);
      for (const { kept: channel } of served.values()) await channel.close();
      for (const deliver of mailboxes.values()) deliver(undefined);
      mailboxes.clear();
      await kept.close();
    },
  };
}
