import type { Static } from 'typebox';
import type * as resources from '../resources.ts';

type Resources = typeof resources;

const dates = { created_at: 1606243394, updated_at: 1606243398 };
const user = {
  id: 'u_9Bn3kLsV0a',
  username: 'ada',
  email: 'ada@example.com',
  plan: 'free',
  quotas: { daily_invocations_quota: 100_000 },
  ...dates,
} as const;
const apiKey = 'ws_2kGv0bQyN7cTzR4mXa9LpWdE';
const key = { id: 'key_7Ty8Gh9Jk0', name: 'deployments', created_at: 1606243394 };
const webhook = {
  id: 'wh_8Xt1cMe2Rf',
  user_id: user.id,
  name: 'Orders',
  description: null,
  url: 'https://example.com/hooks/orders',
  active: true,
  ...dates,
};
const secret = 'whsec_c2lnbmluZy1zZWNyZXQtb2YtYS13ZWJob29r';
const org = { id: 'o_Qw5rT7yU8i', orgname: 'acme', name: 'Acme', email: 'ops@example.com' };
const sourceId = 'dc_abc123Def4';

/** One example of each resource, for the OpenAPI documents. */
export const EXAMPLES: { [Name in keyof Resources]: Static<Resources[Name]> } = {
  PropDescriptor: { name: 'interval', type: '$.interface.timer', label: 'Interval', default: '0 * * * *' },
  Component: {
    id: 'sc_XyZ987abcD',
    code: "export default { key: 'orders', name: 'Orders', version: '1.0.0', run() {} };",
    code_hash: '2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae',
    name: 'Orders',
    key: 'orders',
    version: '1.0.0',
    type: 'source',
    description: 'Emits new orders',
    component_url: null,
    configurable_props: [{ name: 'timer', type: '$.interface.timer' }],
    ...dates,
  },
  ConfigurableProps: {
    configurable_props: [
      { name: 'mode', type: 'string', label: 'Mode' },
      { name: 'folder', type: 'string', label: 'Folder' },
    ],
  },
  PropOptions: {
    options: [{ label: 'octocat/hello-world', value: 'hello-world' }],
    context: { nextPageToken: 'Mg' },
  },
  TestRun: {
    ok: true,
    emitted: [{ event: { order: 1001 }, name: '', id: null, summary: null, ts: null }],
    logs: [{ ts: 1606370816223, level: 'info', msg: 'One new order' }],
    response: null,
    exports: {},
    sends: [],
    truncated: false,
    duration_ms: 12,
    error: null,
  },
  Account: {
    id: 'apn_5Bn6Mk7Lp8',
    owner_id: user.id,
    user_id: user.id,
    app: 'github',
    name: 'Work',
    ...dates,
  },
  Source: {
    id: sourceId,
    user_id: user.id,
    owner_id: user.id,
    component_id: 'sc_XyZ987abcD',
    configured_props: { timer: { cron: null, interval_seconds: 60 } },
    active: true,
    concurrency: 1,
    ...dates,
    name: 'Orders',
    name_slug: 'orders',
    next_run_at: 1606370880,
    last_run_at: 1606370820,
    last_event_at: 1606370816,
    last_error_at: null,
  },
  Run: {
    id: 'run_2fGh5JkL7mQ3xT9bVe',
    emitter_id: sourceId,
    state: 'ok',
    trigger: 'timer',
    started_at: 1606370816,
    duration_ms: 120.5,
    compute_ms: 14,
    emitted: 2,
    deduped: 1,
    error: null,
  },
  ServiceDb: { cursor: 1001 },
  RunStarted: { run_id: 'run_2fGh5JkL7mQ3xT9bVe' },
  EventSummary: {
    id: '1606370816223-0',
    indexed_at_ms: 1606370816223,
    event: { order: 1001, total: 25 },
    metadata: {
      emit_id: 'emit_4Rt6Yu8Io0',
      emitter_id: sourceId,
      name: '',
      id: 1001,
      summary: 'Order 1001',
      ts: 1606370815000,
    },
  },
  SourceEmit: { id: '1606370816223-0', k: 'emit', e: { order: 1001, total: 25 }, ts: 1606370816223 },
  Subscription: {
    id: 'sub_3De5Fg7Hj9',
    emitter_id: sourceId,
    listener_id: webhook.id,
    event_name: '',
    created_at: 1606243394,
  },
  AutoSubscription: {
    id: 'as_1Qa2Ws3Ed4',
    event_name: '$errors',
    listener_id: webhook.id,
    created_at: 1606243394,
  },
  Workflow: {
    id: 'p_5Kd8sJw2Qx',
    owner_id: user.id,
    name: 'Greet',
    definition: {
      name: 'Greet',
      trigger: { http: true },
      steps: [
        { name: 'greet', component: 'greet_by_mail', props: { to: '{{steps.trigger.event.body.email}}' } },
      ],
    },
    deployment_id: 'd_7Yh4nBv1Lz',
    trigger: { source_id: sourceId, endpoint_url: 'https://example.com/e/eab3kqpz7m2n4x6c8v0b1d5f' },
    ...dates,
  },
  Webhook: webhook,
  WebhookWithSecret: { ...webhook, secret },
  Delivery: {
    id: 'dlv_6Yh7Uj8Ik9',
    webhook_id: webhook.id,
    emitter_id: sourceId,
    event_id: '1606370816223-0',
    event_name: '',
    status: 'pending',
    attempts: 1,
    next_attempt_at: 1606370822,
    attempt_log: [
      {
        number: 1,
        at: 1606370816,
        duration_ms: 3,
        status: null,
        error: 'connect ECONNREFUSED 127.0.0.1:4000',
        response_headers: null,
        response_body: null,
      },
    ],
    created_at: 1606370816,
  },
  Recovered: { count: 12 },
  Replayed: { count: 12 },
  OrgOfUser: org,
  Me: {
    id: user.id,
    username: user.username,
    email: user.email,
    orgs: [org],
    daily_compute_time_quota: 1_800_000,
    daily_compute_time_used: 42_000,
    daily_invocations_quota: 100_000,
    daily_invocations_used: 350,
  },
  ApiKey: { ...key, last_used_at: 1606370816 },
  ApiKeyWithText: { ...key, last_used_at: null, api_key: apiKey },
  Member: { id: user.id, username: user.username, email: user.email },
  Quotas: user.quotas,
  Plan: user.plan,
  User: user,
  UserWithKey: { ...user, api_key: apiKey },
  Org: { ...org, code_allow_networks: ['10.1.0.0/16'], ...dates },
  RegistryVersion: {
    key: 'orders',
    version: '1.0.0',
    component_id: 'sc_XyZ987abcD',
    content_hash: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
    created_at: 1606243394,
  },
  DeadLetter: {
    id: 'dead_5Tg6Yh7Uj8',
    queue: 'runs',
    key: `${sourceId}#0`,
    payload: '{"source_id":"dc_abc123Def4"}',
    reason: 'The run failed three times for a fault of the platform.',
    attempts: 3,
    died_at: 1606370816223,
  },
  PageInfo: {
    total_count: 37,
    count: 10,
    start_cursor: 'ZGNfYWJjMTIzRGVmNA',
    end_cursor: 'ZGNfWGZwOTg3YWJjZA',
  },
  ErrorBody: {
    error: 'limit must be an integer.',
    code: 'invalid_parameter',
    param: 'limit',
    request_id: 'req_0Ok9Ij8Uh7',
  },
  Nothing: null,
};

const PATH_EXAMPLES: readonly [pattern: RegExp, description: string, example: string][] = [
  [/^\/sources\/\{id\}/, 'Id of the source', sourceId],
  [/^\/workflows\/\{id\}/, 'Id of the workflow', 'p_Wf1Gh2Jk3L'],
  [/^\/webhooks\/\{id\}/, 'Id of the webhook', webhook.id],
  [/^\/deliveries\/\{id\}/, 'Id of the delivery', 'dlv_6Yh7Uj8Ik9'],
  [/^\/subscriptions\/\{id\}/, 'Id of the subscription', 'sub_3De5Fg7Hj9'],
  [/^\/auto_subscriptions\/\{id\}/, 'Id of the auto-subscription', 'as_1Qa2Ws3Ed4'],
  [/^\/components\/\{id\}/, 'Id of the component, or its key or key@version', 'sc_XyZ987abcD'],
  [/^\/runs\/\{id\}/, 'Id of the run', 'run_2fGh5JkL7mQ3xT9bVe'],
  [/^\/accounts\/\{id\}/, 'Id of the account', 'apn_5Bn6Mk7Lp8'],
  [/^\/users\/\{id\}/, 'Id of the user', user.id],
  [/^\/orgs\/\{(id|org_id)\}/, 'Id of the organization', org.id],
  [/^\/dead_letters\/\{id\}/, 'Id of the dead letter', 'dead_5Tg6Yh7Uj8'],
];

const NAME_EXAMPLES: Record<string, { description: string; example: string }> = {
  event_id: { description: 'Id of the event', example: '1606370816223-0' },
  key_id: { description: 'Id of the API key', example: 'key_7Ty8Gh9Jk0' },
  user_id: { description: 'Id of the user', example: user.id },
  key: { description: 'Key of the component, also key@version', example: 'orders' },
  version: { description: 'Semantic version', example: '1.0.0' },
};

/** Description and example of a path parameter. @throws Error if none is declared in this file */
export function exampleOfPath(path: string, name: string): { description: string; example: string } {
  const byName = NAME_EXAMPLES[name];
  if (byName) return byName;
  const found = PATH_EXAMPLES.find(([pattern]) => pattern.test(path));
  if (!found) throw new Error(`openapi/examples.ts has no example of {${name}} in ${path}`);
  const [, description, example] = found;
  return { description, example };
}
