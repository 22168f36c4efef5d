import { expect } from '@jest/globals';
import type { Client, OperatorClient } from '@wellspring/client/client';
import type { Load } from './crash.ts';
import { eventually } from './eventually.ts';
import type { WebhookSink } from './webhook-sink.ts';

/** Sources whose events show losses, duplicates and inconsistent state. */
const SOURCES = {
  /** Emits the body. */
  plain: `export default {
    name: 'Plain',
    props: { http: '$.interface.http' },
    run(event) { this.$emit(event.body); },
  };`,
  /** Counts its emits, so that state and events can be compared. Emits every event twice. */
  counting: `export default {
    name: 'Counting',
    dedupe: 'unique',
    props: { http: '$.interface.http', db: '$.service.db' },
    run(event) {
      const n = (this.db.get('n') ?? 0) + 1;
      this.db.set('n', n);
      for (let i = 0; i < 2; i++) this.$emit({ ...event.body, n }, { id: event.body.id });
    },
  };`,
  /** Listens to the plain one. */
  listening: `export default { name: 'Listening', run(event) { this.$emit(event); } };`,
};

/** The steps of a workflow that listens to the plain source: one hands the event to the next, which emits it. */
const STEPS = {
  read: `export default { name: 'Read', type: 'action', run({ steps }) { return steps.trigger.event; } };`,
  emit: `export default {
    name: 'Emit',
    type: 'action',
    props: { event: 'object' },
    run({ $ }) { $.send.emit(this.event); },
  };`,
};

const TIMEOUT_MS = 240_000;

export interface Emitted {
  id: string;
  event: { id: string; n?: number };
}

interface Deployed {
  id: string;
  /** Path of its endpoint, or ''. */
  path: string;
}

/** Two HTTP sources, a source and a workflow that listen to the first, and a webhook that listens to all of them. */
export interface Pipeline {
  webhookId: string;
  plain: Deployed;
  counting: Deployed;
  listening: Deployed;
  workflow: { id: string };
}

export async function deployPipeline(
  { client, operator }: { client: Client; operator: OperatorClient },
  sink: WebhookSink,
): Promise<Pipeline> {
  const webhook = await client.createWebhook({ url: sink.url });
  const create = async (code: string): Promise<Deployed> => {
    const source = await client.createSource({ component_code: code });
    await client.createSubscription({ emitter_id: source.id, listener_id: webhook.id });
    const http = source.configured_props.http as { endpoint_url: string } | undefined;
    return { id: source.id, path: http ? new URL(http.endpoint_url).pathname : '' };
  };
  const plain = await create(SOURCES.plain);
  const counting = await create(SOURCES.counting);
  const listening = await create(SOURCES.listening);
  await client.createSubscription({ emitter_id: plain.id, listener_id: listening.id });
  const workflow = await operator.operatorCreateWorkflow({
    owner_id: (await client.getMe()).id,
    definition: {
      name: 'Passing on',
      trigger: { source_id: plain.id },
      steps: [
        { name: 'read', component: STEPS.read },
        { name: 'emit', component: STEPS.emit, props: { event: '{{steps.read.$return_value}}' } },
      ],
    },
  });
  await client.createSubscription({ emitter_id: workflow.id, listener_id: webhook.id });
  return { webhookId: webhook.id, plain, counting, listening, workflow };
}

/** Events of a source or workflow, oldest first: reads the stream until all `wanted` ids have arrived. */
export async function emittedBy(
  client: Client,
  emitterId: string,
  wanted: Iterable<string>,
): Promise<Emitted[]> {
  const open = new Set(wanted);
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const from = { id: emitterId, last_event_id: '0-0' };
  const stream = emitterId.startsWith('p_')
    ? await client.streamWorkflow(from, { signal })
    : await client.streamSource(from, { signal });
  const events: Emitted[] = [];
  for await (const record of stream) {
    const { id, event } = record as Emitted & { event: { raw_event?: Emitted['event'] } };
    const emitted = { id, event: event.raw_event ?? event };
    events.push(emitted);
    open.delete(emitted.event.id);
    if (open.size === 0) break;
  }
  return events;
}

const idsOf = (events: readonly Emitted[]) => events.map(({ event }) => event.id);
const repeated = (ids: readonly string[]) => ids.filter((id, index) => ids.indexOf(id) !== index);
const missing = (wanted: Iterable<string>, ids: readonly string[]) => {
  const there = new Set(ids);
  return [...wanted].filter((id) => !there.has(id));
};

export interface Outcome {
  accepted: number;
  unanswered: number;
  emitted: number;
  deliveredTwice: number;
}

/**
 * Compares accepted calls, events and deliveries: every accepted call is emitted exactly once and delivered at least
 * once; state and events agree; there are no dead letters and no failed deliveries.
 * @param loads stopped loads of the plain and the counting source
 */
export async function checkPipeline(
  { client, operator }: { client: Client; operator: OperatorClient },
  { webhookId, plain, counting, listening, workflow }: Pipeline,
  [toPlain, toCounting]: readonly [Load, Load],
  sink: WebhookSink,
): Promise<Outcome> {
  // Runs of a source are executed in order: after this call all earlier ones are done.
  for (const load of [toPlain, toCounting]) await load.one();

  // Emitted exactly once.
  const fromPlain = await emittedBy(client, plain.id, toPlain.accepted);
  const fromCounting = await emittedBy(client, counting.id, toCounting.accepted);
  const fromListening = await emittedBy(client, listening.id, idsOf(fromPlain));
  const fromWorkflow = await emittedBy(client, workflow.id, idsOf(fromPlain));
  for (const [load, events] of [
    [toPlain, fromPlain],
    [toCounting, fromCounting],
    [toPlain, fromListening],
    [toPlain, fromWorkflow],
  ] as const) {
    expect(missing(load.accepted, idsOf(events))).toEqual([]);
    expect(repeated(idsOf(events))).toEqual([]);
    expect(missing(idsOf(events), [...load.sent])).toEqual([]);
    expect(repeated(events.map(({ id }) => id))).toEqual([]);
  }
  // The listeners received every event once.
  expect(missing(idsOf(fromPlain), idsOf(fromListening))).toEqual([]);
  expect(missing(idsOf(fromPlain), idsOf(fromWorkflow))).toEqual([]);
  // `$service.db` and events were committed together.
  expect(fromCounting.map(({ event }) => event.n)).toEqual(fromCounting.map((_, index) => index + 1));

  // Delivered at least once, under one webhook-id.
  const emitted = [fromPlain, fromCounting, fromListening, fromWorkflow].flat().length;
  const key = (emitter: unknown, id: unknown) => `${emitter} ${id}`;
  const wanted = (
    [
      [plain, fromPlain],
      [counting, fromCounting],
      [listening, fromListening],
      [workflow, fromWorkflow],
    ] as const
  ).flatMap(([source, events]) => events.map(({ id }) => key(source.id, id)));
  const delivered = () =>
    sink.requests.map(({ headers }) =>
      key(headers['x-wellspring-emitter-id'], headers['x-wellspring-event-id']),
    );
  await eventually(
    () => {
      expect(missing(wanted, delivered())).toEqual([]);
    },
    { ms: TIMEOUT_MS, every: 250 },
  );
  expect(missing(delivered(), wanted)).toEqual([]);
  expect(new Set(sink.requests.map(({ headers }) => headers['webhook-id'])).size).toBe(emitted);
  const twice = sink.requests.length - emitted;
  const accepted = toPlain.accepted.size + toCounting.accepted.size;
  const unanswered = toPlain.unanswered + toCounting.unanswered;

  // No dead letters, no errors.
  expect(await operator.operatorListDeadLetters()).toEqual([]);
  for (const { id } of [plain, counting, listening]) {
    expect((await client.listSourceErrors({ id })).data).toEqual([]);
  }
  expect((await client.listWorkflowErrors({ id: workflow.id })).data).toEqual([]);
  // A delivery with an unwritten outcome is retried after its lease.
  await eventually(
    async () => {
      const { data } = await client.listWebhookDeliveries({ id: webhookId, limit: 100 });
      expect(data.filter(({ status }) => status !== 'delivered')).toEqual([]);
    },
    { ms: TIMEOUT_MS, every: 250 },
  );
  return { accepted, unanswered, emitted, deliveredTwice: twice };
}
