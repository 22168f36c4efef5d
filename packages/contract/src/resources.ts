import Type from 'typebox';
import { channelName, dates, nullable, seconds } from './resource-fields.ts';

/** The resources of the API. */

export * from './component-resources.ts';
export * from './owner-resources.ts';

export const Account = Type.Object({
  id: Type.String({ description: 'apn_…: a value of an app prop is {"authProvisionId": "apn_…"}' }),
  owner_id: Type.String({ description: 'The user or organization it belongs to' }),
  user_id: Type.String({ description: 'Who created it' }),
  app: Type.String({ description: 'Slug of the app' }),
  name: Type.String(),
  ...dates,
  credentials: Type.Optional(
    Type.Record(Type.String(), Type.String(), { description: 'Only with include_credentials=1' }),
  ),
});

export const Source = Type.Object({
  id: Type.String({ description: 'dc_…' }),
  user_id: Type.String({ description: 'Who created it' }),
  owner_id: Type.String({ description: 'The user or organization it belongs to' }),
  component_id: Type.String(),
  configured_props: Type.Record(Type.String(), Type.Unknown(), {
    description: 'Timers as {cron, interval_seconds}, HTTP interfaces as {endpoint_url}, secrets as ********',
  }),
  active: Type.Boolean(),
  concurrency: Type.Integer({ description: '1: runs are serial, in the order of arrival' }),
  ...dates,
  name: Type.String(),
  name_slug: Type.String(),
  next_run_at: nullable(seconds('Next tick of its timers')),
  last_run_at: nullable(seconds('Newest entry of its logs')),
  last_event_at: nullable(seconds('Newest event')),
  last_error_at: nullable(seconds('Newest error')),
});

export const Run = Type.Object({
  id: Type.String({ description: 'run_…' }),
  emitter_id: Type.String({ description: 'The source or workflow' }),
  state: Type.Enum(['running', 'ok', 'failed', 'cancelled']),
  trigger: Type.Enum(['http', 'timer', 'event', 'manual', 'hook']),
  started_at: seconds('Start'),
  duration_ms: nullable(Type.Number({ description: 'Null while it runs, as the fields below' })),
  compute_ms: nullable(Type.Number({ description: 'Processor time' })),
  emitted: nullable(Type.Integer({ description: 'Events' })),
  deduped: nullable(
    Type.Integer({
      description: 'Events that the dedupe strategy left out: known ones, and those without an id',
    }),
  ),
  error: nullable(
    Type.Object(
      { code: Type.String(), msg: Type.String(), stack: Type.String() },
      { description: 'The first error, as in $errors' },
    ),
  ),
});

export const ServiceDb = Type.Record(Type.String(), Type.Unknown(), {
  description: 'Values by key, at most 64 KB as JSON',
});

export const RunStarted = Type.Object({ run_id: Type.String({ description: 'run_…' }) });

export const EventSummary = Type.Object({
  id: Type.String({ description: '<epoch ms>-<n>, in the order of emission' }),
  indexed_at_ms: Type.Integer(),
  event: Type.Unknown({
    description: 'The emitted value; over 1 KB its beginning as a text, unless expand=event',
  }),
  metadata: Type.Object(
    {
      emit_id: Type.String(),
      emitter_id: Type.String(),
      name: channelName,
      id: nullable(Type.Union([Type.String(), Type.Number()])),
      summary: nullable(Type.String()),
      ts: nullable(Type.Number()),
      truncated: Type.Optional(Type.Boolean()),
    },
    { additionalProperties: true },
  ),
});

export const SourceEmit = Type.Object({
  id: Type.String({ description: '<epoch ms>-<n>, in the order of emission' }),
  k: Type.Literal('emit'),
  e: Type.Unknown({ description: 'The emitted value, whole' }),
  ts: Type.Integer({ description: 'Emitted, epoch ms' }),
});

export const Subscription = Type.Object({
  id: Type.String({ description: 'sub_…' }),
  emitter_id: Type.String(),
  listener_id: Type.String(),
  event_name: channelName,
  created_at: seconds('Created'),
});

export const AutoSubscription = Type.Object({
  id: Type.String({ description: 'as_…' }),
  event_name: Type.Union([Type.Literal('$errors'), Type.Literal('$logs')]),
  listener_id: Type.String(),
  created_at: seconds('Created'),
});

export const Workflow = Type.Object({
  id: Type.String({ description: 'p_…' }),
  owner_id: Type.String({ description: 'The user or organization it belongs to' }),
  name: Type.String(),
  definition: Type.Record(Type.String(), Type.Unknown(), {
    description: 'As given; values of secret props are shown as ********, which an update keeps',
  }),
  deployment_id: Type.String({ description: 'd_…: one per definition' }),
  trigger: Type.Object({
    source_id: Type.String({ description: 'The source that triggers it' }),
    endpoint_url: nullable(Type.String({ description: 'Endpoint of that source, if it has one' })),
  }),
  ...dates,
});

export const Webhook = Type.Object({
  id: Type.String({ description: 'wh_…' }),
  user_id: Type.String(),
  name: nullable(Type.String()),
  description: nullable(Type.String()),
  url: Type.String(),
  payload_format: Type.Optional(Type.Literal('envelope', { description: 'Absent: raw' })),
  active: Type.Boolean(),
  ...dates,
});

export const WebhookWithSecret = Type.Object({
  ...Webhook.properties,
  secret: Type.String({ description: 'whsec_…: signs the deliveries (Standard Webhooks); shown only here' }),
});

const Attempt = Type.Object({
  number: Type.Integer({ description: '1 for the first' }),
  at: seconds('Started'),
  duration_ms: Type.Integer(),
  status: nullable(Type.Integer({ description: 'HTTP status; null without an answer' })),
  error: nullable(Type.String({ description: 'Such as connect ECONNREFUSED 127.0.0.1:4000' })),
  response_headers: nullable(Type.Record(Type.String(), Type.String())),
  response_body: nullable(Type.String({ description: 'The first 4 KB' })),
});

export const Delivery = Type.Object(
  {
    id: Type.String({ description: 'dlv_…' }),
    webhook_id: Type.String(),
    emitter_id: nullable(Type.String({ description: 'Null for a test' })),
    event_id: nullable(Type.String()),
    event_name: channelName,
    status: Type.Union([Type.Literal('pending'), Type.Literal('delivered'), Type.Literal('failed')]),
    attempts: Type.Integer(),
    next_attempt_at: nullable(
      Type.Integer({ description: 'Epoch seconds at the latest; null when it is done, or waits for others' }),
    ),
    created_at: seconds('Created'),
    attempt_log: Type.Optional(
      Type.Array(Attempt, {
        description: 'The newest 20 attempts, newest first; in lists with expand=attempt_log',
      }),
    ),
  },
  { additionalProperties: true },
);

export const Recovered = Type.Object({
  count: Type.Integer({ description: 'Deliveries that are retried' }),
});

export const Replayed = Type.Object({
  count: Type.Integer({ description: 'Events of the range; a listener gets those of its channels' }),
});

export const PageInfo = Type.Object({
  total_count: Type.Integer(),
  count: Type.Integer(),
  start_cursor: nullable(Type.String()),
  end_cursor: nullable(Type.String()),
});

export const ErrorBody = Type.Object({
  error: Type.String({ description: 'A sentence for a person' }),
  code: Type.String(),
  param: Type.Optional(Type.String({ description: 'The parameter at fault' })),
  sources: Type.Optional(Type.Array(Type.String(), { description: 'Of component_in_use: the sources' })),
  workflows: Type.Optional(Type.Array(Type.String(), { description: 'Of component_in_use: the workflows' })),
  request_id: Type.String(),
});

export const Nothing = Type.Null();
