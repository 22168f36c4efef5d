import { afterEach, beforeEach } from '@jest/globals';
import type {
  DelayedEvent,
  EmittedEvent,
  EmittedMessage,
  RunsMessage,
  Send,
} from '@wellspring/contract/messages';
import { type Clock, systemClock } from '@wellspring/core/clock';
import { newId, newRunId } from '@wellspring/core/ids';
import { createMemory } from '@wellspring/core/memory';
import { createTokenBuckets, type TokenBuckets } from '@wellspring/core/token-buckets';
import { newWebhookSecret } from '@wellspring/core/webhook-signature';
import type { Config } from '@wellspring/runtime/config';
import { type SourceRow, sources } from '@wellspring/store/collections/sources';
import { subscriptions } from '@wellspring/store/collections/subscriptions';
import {
  type DeliveryRow,
  deliveries,
  type WebhookRow,
  webhooks,
} from '@wellspring/store/collections/webhooks';
import { workflows } from '@wellspring/store/collections/workflows';
import { numbers } from '@wellspring/testing/numbers';
import { OWNER, sourceRow, subscriptionRow, webhookRow } from '@wellspring/testing/rows';
import { type Harness, seal, useHarness } from '@wellspring/testing/service-harness';
import {
  type Answer,
  createWebhookSink,
  type Received,
  type WebhookSink,
} from '@wellspring/testing/webhook-sink';
import { createDeliveryService, type DeliveryOptions } from './service.ts';

/** The delivery service on embedded adapters, with real receivers and a movable clock. */

export const DAY = 24 * 3_600_000;

/** The system's clock, which a test can advance, also backwards; sleeps end earlier, never later. */
function movableClock(): Clock & { advance(ms: number): void } {
  let ahead = 0;
  let skipped = 0;
  const moved = new Set<() => void>();
  return {
    now: () => systemClock.now() + ahead,
    async sleep(ms, signal) {
      const elapsed = () => systemClock.now() + skipped;
      const until = elapsed() + ms;
      while (elapsed() < until && !signal?.aborted) {
        const woken = new AbortController();
        const wake = () => woken.abort();
        moved.add(wake);
        const signals = signal ? [signal, woken.signal] : [woken.signal];
        await systemClock.sleep(until - elapsed(), AbortSignal.any(signals));
        moved.delete(wake);
      }
    },
    advance(ms) {
      ahead += ms;
      skipped += Math.max(0, ms);
      for (const wake of [...moved]) wake();
    },
  };
}

/** The answer to the n-th request: its status, or 'hang' for none until the test ends. */
export type Respond = (request: Received, n: number) => number | 'hang' | Answer | Promise<Answer>;

interface Webhook {
  id: string;
  secret: string;
}

export interface Platform extends Harness<ReturnType<typeof movableClock>> {
  /** Of the service. */
  options: DeliveryOptions;
  /** Of the rates of requests. */
  buckets: TokenBuckets;
  /** Starts the service. @param memoryBytes default: the memory of the queue, 1 GiB */
  start(config?: Partial<Config>, memoryBytes?: number): void;
  /** Reopens the database file and starts the service; the receivers stay. */
  restart(): Promise<void>;
  /** Starts an HTTP receiver. */
  receive(respond?: Respond): Promise<WebhookSink>;
  webhook(url: string, fields?: Partial<WebhookRow>): Promise<Webhook>;
  /** A source, and a receiver with a webhook that is subscribed to it. */
  subscribed(
    respond?: Respond,
    fields?: Partial<WebhookRow>,
  ): Promise<{ emitter: string; sink: WebhookSink; hook: Webhook }>;
  source(fields?: Partial<SourceRow>): Promise<string>;
  workflow(id: string): Promise<void>;
  subscribe(
    emitterId: string,
    listenerId: string,
    eventName?: string,
    ownerId?: string,
    userId?: string,
  ): Promise<void>;
  /** Publishes a message of the queue `emitted`. */
  emit(
    emitterId: string,
    events: EmittedEvent[],
    more?: {
      owner_id?: string;
      hop?: number;
      run_id?: string;
      redelivered?: true;
      sends?: Send[];
      delayed?: DelayedEvent[];
    },
  ): Promise<void>;
  /** Jobs of the queue `runs`, once there are `count`. */
  runs(count: number): Promise<RunsMessage[]>;
  /**
   * Advances the clock after a durable write: the writes of the service get as many turns as the test, on a slow disk and
   * a loaded machine, too.
   */
  step(ms: number): Promise<void>;
  /** Resolves when no message waits for its fan-out. */
  quiet(): Promise<unknown>;
  deliveries(): Promise<DeliveryRow[]>;
  /** The first delivery, once it was attempted so often. */
  untilAttempts(count: number): Promise<DeliveryRow>;
  untilStatus(status: DeliveryRow['status'], count?: number): Promise<DeliveryRow[]>;
}

/** Reads once per turn of the event loop until the condition holds. */
export async function until<T>(read: () => Promise<T>, isSo: (value: T) => boolean): Promise<T> {
  for (;;) {
    const value = await read();
    if (isSo(value)) return value;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

let events = 0;
export const event = (payload: unknown, name = ''): EmittedEvent => ({
  event_id: `1700000000000-${events++}`,
  name,
  payload: JSON.stringify(payload),
  trace_id: 'trace',
});

/** This many events, with their number as payload. */
export const eventsOf = (count: number, name = ''): EmittedEvent[] =>
  numbers(count).map((n) => event(n, name));

/** A platform for each test of the file. */
export function usePlatform(): Platform {
  const sinks: WebhookSink[] = [];
  const hanging: (() => void)[] = [];
  const endHanging = () => {
    for (const end of hanging.splice(0)) end();
  };
  // Before the harness stops the service, which waits for its requests.
  afterEach(async () => {
    endHanging();
    await Promise.all(sinks.splice(0).map((sink) => sink.close()));
  });
  const t = useHarness(movableClock) as Platform;
  beforeEach(() => {
    t.buckets = createTokenBuckets(t.clock);
    t.options = {};
  });

  t.start = (fields = {}, memoryBytes) => {
    const config = {
      allowNetworks: ['127.0.0.0/8'],
      mode: 'embedded',
      minIntervalSeconds: 15,
      smtpUrl: null,
      sendS3Url: null,
      ...fields,
    } as Config;
    const memory = memoryBytes === undefined ? t.memory : createMemory(memoryBytes);
    t.run(createDeliveryService({ ...t, ...t.options, memory, config }));
  };
  t.restart = async () => {
    endHanging();
    await t.reopen();
    t.start();
  };
  t.receive = async (respond = () => 200) => {
    const sink = await createWebhookSink();
    sinks.push(sink);
    let n = 0;
    sink.answer(async (request) => {
      const status = respond(request, ++n);
      if (typeof status === 'number') return { status };
      if (status !== 'hang') return status;
      await new Promise<void>((resolve) => hanging.push(resolve));
      return 'drop';
    });
    return sink;
  };
  t.webhook = async (url, fields = {}) => {
    const id = newId('wh');
    const secret = newWebhookSecret();
    await t.store
      .collection(webhooks)
      .insert(webhookRow({ id, url, secret: seal.seal(secret, id), ...fields }));
    return { id, secret };
  };
  t.subscribed = async (respond, fields) => {
    const [emitter, sink] = [await t.source(), await t.receive(respond)];
    const hook = await t.webhook(sink.url, fields);
    await t.subscribe(emitter, hook.id);
    return { emitter, sink, hook };
  };
  t.source = async (fields) => {
    const row = sourceRow(fields);
    await t.store.collection(sources).insert(row);
    return row.id;
  };
  t.workflow = (id) =>
    t.store.collection(workflows).insert({
      ...{ id, owner_id: OWNER, name: id, source_id: 'dc_0000000000', made_source: false },
      ...{ deployment_id: 'd_1', status: 'live', transition: null, created_at: 0, updated_at: 0 },
    });
  t.subscribe = (emitter_id, listener_id, event_name = '', owner_id = OWNER, user_id = OWNER) =>
    t.store
      .collection(subscriptions)
      .insert(subscriptionRow({ emitter_id, listener_id, event_name, owner_id, user_id }));
  t.emit = (
    emitter_id,
    list,
    { owner_id = OWNER, hop = 0, run_id = newRunId(), redelivered, sends, delayed } = {},
  ) => {
    const message: EmittedMessage = {
      v: 1,
      type: 'emitted',
      run_id,
      emitter_id,
      owner_id,
      hop,
      events: list,
      ...(sends && { sends }),
      ...(delayed && { delayed }),
      ...(redelivered && { redelivered }),
    };
    return t.queue.publish('emitted', { key: emitter_id, payload: JSON.stringify(message) });
  };
  t.runs = async (count) => {
    const jobs: RunsMessage[] = [];
    const enough = new AbortController();
    await t.queue.consume(
      'runs',
      async ([job]) => {
        jobs.push(JSON.parse(job.payload));
        if (jobs.length >= count) enough.abort();
      },
      { signal: enough.signal },
    );
    return jobs;
  };
  t.step = async (ms) => {
    await t.store.collection(deliveries).patch('none', {});
    t.clock.advance(ms);
  };
  t.quiet = () =>
    until(
      () => t.queue.depth('emitted'),
      (depth) => depth === 0,
    );
  t.deliveries = () => t.store.collection(deliveries).list({ order: 'asc' });
  t.untilStatus = (status, count = 1) =>
    until(t.deliveries, (rows) => rows.filter((row) => row.status === status).length === count);
  t.untilAttempts = async (count) => (await until(t.deliveries, ([row]) => row?.attempts === count))[0]!;
  return t;
}
