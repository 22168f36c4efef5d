import { setTimeout as pause } from 'node:timers/promises';
import { type Channel, type ConsumeMessage, consume } from '@wellspring/amqp/channel';
import type { Amqp } from '@wellspring/amqp/client';
import { newSecret } from '@wellspring/core/ids';
import type { Log } from '@wellspring/core/log';
import { Problem } from '@wellspring/core/problem';
import { Unavailable } from '@wellspring/core/unavailable';
import { withTimeout } from '@wellspring/core/with-timeout';
import { type Call, CallFailed, type Handler } from '../port.ts';
import { createReplyAddresses } from '../reply-addresses.ts';
import { createPendingRequests } from './pending-requests.ts';
import {
  decode,
  decodeAnswer,
  decodeRequest,
  encode,
  encodeAnswer,
  encodeFailure,
  type Request,
  type Type,
} from './wire.ts';

export interface RabbitCallOptions {
  amqp: Amqp;
  log: Log;
  /** Prefix of the exchange's name; default `wellspring.`. */
  prefix?: string;
  /** Unique name of this process among those of the exchange. */
  member: string;
  /** Addresses whose requests go to the process that owns their key. */
  keyed: ReadonlySet<string>;
  /** The owner of a key; undefined: none. @throws Error when it is unknown */
  ownerOf(key: string): Promise<string | undefined>;
  /** Whether this process certainly owns a key at this moment. */
  owns(key: string): boolean;
}

/** Their senders learn that they have no receiver. */
const MANDATORY: ReadonlySet<Type> = new Set(['who', 'request', 'probe', 'check']);

/** Retry delay while no process serves the address or owns the key. */
const RETRY_DELAY_MS = 50;
const WHO_TIMEOUT_MS = 500;
/** Delay of the answer `here` per request in progress, so that the least busy server answers first. */
const BUSY_DELAY_MS = 5;
const MAX_BUSY_DELAY_MS = 200;
const CHECK_INTERVAL_MS = 2_000;

/**
 * Requests and replies over RabbitMQ, with the messages of `wire.ts`, which are not persistent. Each process has one
 * exclusive queue, bound to its own name and to the addresses that it serves. A request goes to the process that owns its
 * key, or else to the first server of the address that answers a broadcast `who`: dead and frozen servers do not answer,
 * and busy ones answer later. A request without a server is retried until its deadline, or for `reachMs`. A request that
 * reached a server fails within about a second if that server dies, and within seconds if it freezes.
 *
 * Every connection declares a queue with a new name: a queue lives on one node of the cluster and is locked while that
 * node is down.
 *
 * Each process sends itself a message every two seconds. If the exchange was deleted, its channel ends or the message is
 * returned, and it declares the exchange and its bindings again: nothing else tells a process that it receives nothing.
 */
export function createRabbitCall({
  amqp,
  log,
  prefix = 'wellspring.',
  member,
  keyed,
  ownerOf,
  owns,
}: RabbitCallOptions): Call {
  const replyAddresses = createReplyAddresses();
  const served = new Map<string, Handler>();
  /** Ids of requests that this process executes. */
  const inProgress = new Set<string>();
  /** Unanswered `who` messages, by correlation id. */
  const pendingWho = new Map<string, (server: string | undefined) => void>();
  let queue = '';
  let isClosed = false;
  const exchange = `${prefix}call`;

  const pending = createPendingRequests(send);
  const channel = amqp.openCallChannel({
    name: 'call',
    async setup(channel) {
      channel.on('return', ({ properties: { type, correlationId } }) => {
        if (type === 'check') channel.close().catch(() => {});
        pendingWho.get(correlationId)?.(undefined);
        pending.returned(type, correlationId);
      });
      await channel.assertExchange(exchange, 'direct', { durable: true });
      ({ queue } = await channel.assertQueue('', { exclusive: true, autoDelete: true }));
      await consume(channel, queue, receive, { noAck: true });
      await channel.bindQueue(queue, exchange, member);
    },
    ready(channel) {
      for (const address of served.keys()) bind(channel, address);
    },
    lost: () => pending.lost(),
  });

  const checking = setInterval(send, CHECK_INTERVAL_MS, member, 'check', '').unref();

  function bind(to: Channel | undefined, address: string): void {
    // If the channel is lost at this moment, the next one binds the address.
    if (!keyed.has(address)) to?.bindQueue(queue, exchange, address).catch(() => {});
  }

  /**
   * A message that cannot be sent is lost, like one without a receiver.
   * @param expiration ms after which the broker drops the message if it has not been taken
   */
  function send(
    to: string,
    type: Type,
    correlationId: string,
    content: Buffer = Buffer.alloc(0),
    expiration?: number,
  ): void {
    const mandatory = MANDATORY.has(type);
    const options = { type, correlationId, replyTo: member, mandatory, expiration };
    channel.publish(exchange, to, content, options);
  }

  function receive(message: ConsumeMessage): void {
    try {
      handle(message);
    } catch (error) {
      log.error({ type: message.properties.type, error: String(error) }, 'call.foreign_message');
    }
  }

  /** @throws Error for malformed content */
  function handle({ content, fields, properties }: ConsumeMessage): void {
    const { correlationId, replyTo } = properties;
    const type = properties.type as Type;
    if (type === 'who') {
      if (!served.has(fields.routingKey)) return;
      const delay = Math.min(MAX_BUSY_DELAY_MS, inProgress.size * BUSY_DELAY_MS);
      if (delay === 0) send(replyTo, 'here', correlationId);
      else setTimeout(send, delay, replyTo, 'here', correlationId);
    } else if (type === 'here') pendingWho.get(correlationId)?.(replyTo);
    else if (type === 'request') void execute(decodeRequest(content), replyTo, correlationId);
    else if (type === 'probe') {
      send(replyTo, inProgress.has(correlationId) ? 'working' : 'unknown', correlationId);
    } else if (type === 'reply') replyAddresses.deliver(correlationId, decode(content));
    else pending.received(type, correlationId, content);
  }

  async function execute({ address, message, key }: Request, to: string, id: string): Promise<void> {
    const handler = served.get(address);
    // A process that was frozen reads what its caller has given up, and what another owner has executed since.
    const isOurs = !keyed.has(address) || key === undefined || owns(key);
    if (!handler || !isOurs) return send(to, 'absent', id);
    inProgress.add(id);
    let answer: Buffer;
    try {
      answer = encodeAnswer(await handler(message as never, key));
    } catch (error) {
      if (!(error instanceof Problem)) {
        log.error({ address, error: error instanceof Error ? error.stack : String(error) }, 'call.failed');
      }
      answer = encodeFailure(error);
    }
    inProgress.delete(id);
    send(to, 'answer', id, answer);
  }

  /** The process that serves the address; undefined: none is known within the time. */
  async function serverOf(
    address: string,
    key: string | undefined,
    timeoutMs: number,
  ): Promise<string | undefined> {
    if (keyed.has(address)) {
      if (key === undefined) throw new Error(`A request to ${address} needs a key.`);
      // While the owner is unknown, for example during an outage of the store, the request is retried.
      return withTimeout(ownerOf(key), timeoutMs).catch(() => undefined);
    }
    if (!channel.current) return undefined;
    const id = newSecret();
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    pendingWho.set(id, resolve);
    send(address, 'who', id);
    const answered = withTimeout(promise, Math.min(timeoutMs, WHO_TIMEOUT_MS));
    return answered.finally(() => pendingWho.delete(id));
  }

  return {
    async request(address, message, { key, deadlineMs, reachMs = deadlineMs }) {
      const deadline = performance.now() + deadlineMs;
      const remaining = () => deadline - performance.now();
      /** When a process was last known to serve the address. */
      let reachedAt = performance.now();
      const isReachable = () => performance.now() - reachedAt < reachMs;
      let content: Buffer;
      try {
        content = encode({ address, message, ...(key === undefined ? {} : { key }) } satisfies Request);
      } catch (error) {
        log.error({ address, error: String(error) }, 'call.failed');
        throw new CallFailed(`The request to ${address} cannot be encoded.`);
      }
      while (remaining() > 0 && isReachable() && !isClosed) {
        const server = await serverOf(address, key, remaining());
        const timeoutMs = remaining();
        if (server && channel.current && !isClosed && timeoutMs > 0) {
          const answer = await pending.ask(server, address, content, timeoutMs);
          if (answer) return decodeAnswer(answer, address);
          reachedAt = performance.now();
        }
        await pause(Math.max(0, Math.min(RETRY_DELAY_MS, remaining())));
      }
      throw new CallFailed(
        isClosed
          ? `The request to ${address} failed: the connection was closed.`
          : `The request to ${address} failed: no process served it.`,
      );
    },

    serve(address, handler, signal) {
      if (signal.aborted) return;
      served.set(address, handler);
      bind(channel.current, address);
      const end = () => {
        if (served.get(address) !== handler) return;
        served.delete(address);
        void channel.current?.unbindQueue(queue, exchange, address).catch(() => {});
      };
      signal.addEventListener('abort', end, { once: true });
    },

    openReplyAddress() {
      const { id, ...opened } = replyAddresses.open();
      return { address: `${member}|${id}`, ...opened };
    },

    reply(address, message) {
      const [to, id] = address.split('|');
      if (to && id) send(to, 'reply', id, encode(message));
    },

    async ping() {
      await amqp.ping();
      if (!channel.current) throw new Unavailable('The channel for calls is not open.');
    },

    async close() {
      isClosed = true;
      clearInterval(checking);
      pending.close();
      replyAddresses.close();
      await channel.close();
    },
  };
}
