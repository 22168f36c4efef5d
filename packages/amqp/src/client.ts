import { type ByteBudget, createByteBudget } from '@wellspring/core/byte-budget';
import type { Log } from '@wellspring/core/log';
import { Unavailable } from '@wellspring/core/unavailable';
import { withTimeout } from '@wellspring/core/with-timeout';
import { type CallChannel, openCallChannel } from './call-channel.ts';
import { type ChannelEvents, openRecoveringChannel, type RecoveringChannel } from './channel.ts';
import { openConnection } from './connection.ts';
import { watchNodes } from './nodes.ts';
import { onOwnChannel } from './own-channel.ts';
import { createPublisher, type Publisher } from './publisher.ts';

/**
 * Client for RabbitMQ; sole importer of amqplib. Publishers and consumers have separate connections: a broker short of
 * memory or disk blocks publishing connections, and acknowledgements have to get through. Calls do both, on a third
 * connection, where they wait for no large messages either.
 *
 * The connections reconnect within about a second of the broker's return, without limit; channels are reopened.
 */
export interface Amqp {
  /** Publishers and consumers are connected. */
  readonly isUp: boolean;
  /** On the consumers' connection. */
  openChannel(events: ChannelEvents): RecoveringChannel;
  /** On the connection for calls. */
  openCallChannel(events: ChannelEvents): CallChannel;
  /** @param name for the log */
  openPublisher(name: string): Publisher;
  /**
   * Reserves a name in the vhost: declares a durable exchange that carries the value as its alternate exchange, the one
   * argument of an exchange that RabbitMQ compares. Idempotent.
   * @returns false if the name is reserved with another value
   * @throws Error when the user lacks a permission
   * @throws Unavailable when the broker does not answer within 2 seconds
   */
  reserve(name: string, value: string): Promise<boolean>;
  /** @throws Unavailable when the broker does not answer within 2 seconds, or blocks publishers */
  ping(): Promise<void>;
  /** Also closes all channels and publishers. */
  close(): Promise<void>;
}

export interface AmqpTarget {
  /** `amqp://user:password@host:port/vhost`, or `amqps:` for TLS. */
  url: string;
  log: Log;
  /** For the messages of all publishers that are sent and not confirmed, and for calls during an alarm. */
  unconfirmed?: ByteBudget;
  /** A message that is not confirmed fails after this long; default 10 seconds. */
  publishTimeoutMs?: number;
  /** Aborts the wait for an unreachable broker. */
  signal?: AbortSignal;
}

const REPLY_TIMEOUT_MS = 2_000;
/** Reply codes: the user lacks a permission; the object exists with other arguments. */
const [ACCESS_REFUSED, PRECONDITION_FAILED] = [403, 406];
/** Default for tools and tests. */
const UNCONFIRMED_BYTES = 32 * 1024 * 1024;

/**
 * Connects; waits for an unreachable broker.
 * @throws Error when the broker is too old, refuses the credentials or the vhost, or the signal is aborted
 */
export async function openAmqp({
  url,
  log,
  unconfirmed = createByteBudget(UNCONFIRMED_BYTES),
  publishTimeoutMs,
  signal,
}: AmqpTarget): Promise<Amqp> {
  /** Everything to close, with its `reopen` for node changes. */
  const opened = new Map<{ close(): Promise<void> }, (() => void) | undefined>();
  const nodes = watchNodes(url, log, () => {
    for (const reopen of opened.values()) reopen?.();
  });
  let isOpen = false;
  const changed = () => isOpen && nodes.changed();
  await using stack = new AsyncDisposableStack();
  stack.defer(() => nodes.close());
  const consuming = await openConnection({ url, of: 'consumers', log, signal, changed });
  stack.defer(() => consuming.close());
  const publishing = await openConnection({ url, of: 'publishers', log, signal, changed });
  stack.defer(() => publishing.close());
  const calling = await openConnection({ url, of: 'calls', log, signal });
  stack.move();
  isOpen = true;

  function closable<T extends { close(): Promise<void> }>(one: T, reopen?: () => void): T {
    const close = one.close;
    one.close = async () => {
      opened.delete(one);
      await close();
    };
    opened.set(one, reopen);
    return one;
  }
  /** Whether the broker answers on one connection; the other one is watched by its heartbeat. */
  async function answers(): Promise<boolean> {
    const model = await consuming.model();
    if (model) await onOwnChannel(model, async () => {});
    return model !== undefined && publishing.isUp;
  }

  /** @returns false if it exists with another one; undefined without a connection */
  async function declareExchange(name: string, alternateExchange: string): Promise<boolean | undefined> {
    try {
      const model = await consuming.model();
      if (!model) return undefined;
      const options = { durable: true, alternateExchange };
      await onOwnChannel(model, (channel) => channel.assertExchange(name, 'fanout', options));
      return true;
    } catch (error) {
      const { code, message } = error as Error & { code?: number };
      if (code === PRECONDITION_FAILED) return false;
      if (code === ACCESS_REFUSED) throw error;
      throw new Unavailable(`RabbitMQ does not answer: ${message}`, { cause: error });
    }
  }

  return {
    get isUp() {
      return consuming.isUp && publishing.isUp;
    },
    openChannel(events) {
      const channel = openRecoveringChannel(consuming, (model) => model.createChannel(), events, log);
      return closable(channel, events.reopenOnNodeChange ? channel.reopen : undefined);
    },
    openCallChannel: (events) => closable(openCallChannel(calling, unconfirmed, events, log)),
    openPublisher: (name) =>
      closable(
        createPublisher({ name, log, connection: publishing, unconfirmed, timeoutMs: publishTimeoutMs }),
      ),
    async reserve(name, value) {
      const declared = await withTimeout(declareExchange(name, value), REPLY_TIMEOUT_MS);
      if (declared === undefined) throw new Unavailable('RabbitMQ does not answer.');
      return declared;
    },
    async ping() {
      if (publishing.blocked)
        throw new Unavailable(`RabbitMQ blocks publishers: ${publishing.blocked.reason}`);
      const answered = answers().catch(() => false);
      if (!(await withTimeout(answered, REPLY_TIMEOUT_MS)))
        throw new Unavailable('RabbitMQ does not answer.');
    },
    async close() {
      await Promise.all([...opened.keys()].map((one) => one.close()));
      await Promise.all([consuming.close(), publishing.close(), calling.close(), nodes.close()]);
    },
  };
}
