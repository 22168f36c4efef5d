import { DATES, OWNER_FIELDS } from './owner-fields.ts';
import type { ResourceFields } from './row.ts';
import * as in_ from './suites.ts';

const CHANNEL = 'Channel; empty: the default one';

const WEBHOOK_FIELDS = {
  id: 'Starts with `wh_`',
  user_id: 'Who created it',
  name: 'Text or null',
  description: 'Text or null',
  url: 'HTTP or HTTPS address, as it was given',
  payload_format: '`envelope`; absent: the body is the emitted value alone',
  active: 'Whether it is sent anything',
  ...DATES,
};
const COMPONENT = in_.apiComponents(
  'a component has its fields, and is found by id, by key, in the lists and in the registry',
);
const CONFIGURING = in_.apiComponents('options, props and a test run of a component have their fields');
const SOURCE = in_.apiComponents(
  'a source has its fields, and is created, read, listed, updated and deleted',
);
const WEBHOOK = in_.apiEvents('a webhook and a delivery have their fields');
const FAILURE = in_.apiEvents('a failure has its fields, with the id of the request in the header too');
const REFUSED_CODE = in_.ownComponents('while sources use it, it is kept, and they are listed');

/** The fields of every resource of the contract, by its name there. */
export const RESOURCE_FIELDS: Record<string, ResourceFields> = {
  Component: {
    fields: {
      id: 'Starts with `sc_`',
      code: 'The whole code, as it was given',
      code_hash: 'SHA-256 of `code` in hex',
      name: 'Of the code',
      key: 'Of the code, or null',
      version: 'Of the code; empty if it has none',
      type: '`source`, `action` or `app`; a component without type is a source',
      description: 'Of the code, or null',
      component_url: 'Where the code came from, or was said to come from; else null',
      configurable_props: 'Descriptors of its props, in their order',
      ...DATES,
    },
    shownBy: COMPONENT,
    except: {
      code_hash: in_.components(
        'saving › the same code is the same component of its owner, and is evaluated once for everybody',
      ),
      type: [
        ...COMPONENT,
        ...in_.define('readDefinition › only a name is needed; the rest has its defaults'),
      ],
      component_url: in_.components('saving › with code given, the URL is only kept'),
    },
  },
  PropDescriptor: {
    fields: {
      name: 'Name of the prop',
      type: 'Its type, with `[]` for arrays',
      label: 'If given',
      description: 'If given, Markdown',
      default: 'If given',
      app: 'Slug of the app, of type `app`',
      optional: 'If true, no value is needed',
      secret: 'If true, the value is never shown',
      min: 'Least value',
      max: 'Greatest value',
    },
    shownBy: COMPONENT,
  },
  ConfigurableProps: {
    fields: { configurable_props: 'Static and dynamic props' },
    shownBy: CONFIGURING,
  },
  PropOptions: {
    fields: {
      options: 'Options of the page',
      'options[].label': 'For people',
      'options[].value': 'For the code',
      context: 'For the next page, or null',
    },
    shownBy: CONFIGURING,
    except: {
      context: [
        ...CONFIGURING,
        ...in_.configure('options › texts, numbers, labelled values and a context become labels and values'),
      ],
    },
  },
  TestRun: {
    fields: {
      ok: 'False if something was thrown or an emit failed',
      emitted: 'Events, in the order of emission',
      'emitted[].event': 'The value',
      'emitted[].name': CHANNEL,
      'emitted[].id': 'As given, or null',
      'emitted[].summary': 'As given, or null',
      'emitted[].ts': 'As given, or null',
      logs: 'Lines of the console',
      'logs[].ts': 'Epoch milliseconds',
      'logs[].level': '`debug`, `info`, `warn` or `error`',
      'logs[].msg': 'The line',
      response: 'Reply to the HTTP call, or null',
      'response.status': 'Status',
      'response.headers': 'Headers',
      'response.body': 'Text, or Base64',
      'response.base64': 'Whether the body is Base64',
      exports: 'Of an action, with `$return_value`',
      sends: 'Requests that an action would have made',
      'sends[].kind': '`http`, `email` or `s3`',
      'sends[].request': 'As given',
      truncated: 'Whether items were left out',
      duration_ms: 'Duration',
      error: 'The first error, or null',
      'error.code': 'Its name',
      'error.msg': 'Its message',
      'error.stack': 'Its stack',
      'error.cause': 'Its cause, if it has one',
    },
    shownBy: CONFIGURING,
    except: { truncated: in_.apiLimits('a test run shows at most 1,000 events and 4 MB') },
  },
  Source: {
    fields: {
      id: 'Starts with `dc_`; the same after updates',
      user_id: 'Who created it',
      owner_id: 'User or organization',
      component_id: 'Its component, `sc_…`',
      configured_props:
        'Values by prop name: timers as `{cron, interval_seconds}` with null for the absent one, HTTP interfaces as `{endpoint_url}`, secrets masked, defaults filled in',
      active: 'Whether it runs',
      concurrency: 'Runs at a time',
      ...DATES,
      name: 'As given, else the slug of the component’s name',
      name_slug: 'Unique among the sources of the owner',
      next_run_at: 'Next tick in epoch seconds, or null',
      last_run_at: 'Newest run in epoch seconds, or null',
      last_event_at: 'Newest event in epoch seconds, or null',
      last_error_at: 'Newest error in epoch seconds, or null',
    },
    shownBy: SOURCE,
    except: {
      name_slug: [
        ...SOURCE,
        ...in_.sources(
          'creating a source › gives each source of an owner a distinct slug, also when several are created at once',
        ),
      ],
      last_error_at: in_.present(
        'a source shows when it ran, emitted and failed last, and when it runs next',
      ),
    },
  },
  RunStarted: { fields: { run_id: 'The run that was queued, `run_…`' }, shownBy: SOURCE },
  ServiceDb: {
    fields: {},
    shownBy: in_.apiComponents('the database of a source is read, replaced and emptied'),
  },
  Account: {
    fields: {
      id: 'Starts with `apn_`; an app prop takes it as `{authProvisionId}`',
      owner_id: 'User or organization',
      user_id: 'Who created it',
      app: 'Slug of the app',
      name: 'For people',
      ...DATES,
      credentials: 'Only when asked for',
    },
    shownBy: in_.apiComponents(
      'an account has its fields, without its credentials unless they are asked for',
    ),
  },
  EventSummary: {
    fields: {
      id: '`<epoch ms>-<n>`, in the order of emission',
      indexed_at_ms: 'Integer epoch milliseconds',
      event:
        'The emitted value; of a workflow `{raw_event}`; over 1 KB its beginning as a text unless `expand=event`',
      metadata: 'About the emit',
      'metadata.emit_id': 'Id of the emit',
      'metadata.emitter_id': 'Source or workflow',
      'metadata.name': `${CHANNEL}; \`$errors\` for errors`,
      'metadata.id': 'Id given to `$emit`, or null',
      'metadata.summary': 'Summary given to `$emit`, or null',
      'metadata.ts': 'Time given to `$emit`, or null',
      'metadata.truncated': 'True if the event was cut',
    },
    shownBy: in_.apiEvents(
      'an event has its fields, cut over 1 KB unless expand=event, in lists, by id and on the stream',
    ),
  },
  SourceEmit: {
    fields: {
      id: '`<epoch ms>-<n>`, in the order of emission',
      k: '`emit`',
      e: 'The emitted value, whole',
      ts: 'Epoch milliseconds of the emit',
    },
    shownBy: in_.apiEvents('the newest events of a source are listed in the short form of older clients'),
  },
  Replayed: { fields: { count: 'Events that are sent again' }, shownBy: WEBHOOK },
  Run: {
    fields: {
      id: 'Starts with `run_`',
      emitter_id: 'Source or workflow',
      state: '`running`, `ok`, `failed` or `cancelled`',
      trigger: '`http`, `timer`, `event`, `manual` or `hook`',
      started_at: 'Epoch seconds',
      duration_ms: 'Duration; null while it runs',
      compute_ms: 'Processor time; null while it runs',
      emitted: 'Events that it emitted',
      deduped: 'Events that the strategy left out: known ones, and those without an id',
      error: 'The first error, or null',
      'error.code': 'Its name',
      'error.msg': 'Its message',
      'error.stack': 'Its stack',
    },
    shownBy: in_.apiEvents('a run and the records of its error and its logs have their fields'),
  },
  Subscription: {
    fields: {
      id: 'Starts with `sub_`',
      emitter_id: 'Source, workflow, glob or owner',
      listener_id: 'Webhook, source or workflow',
      event_name: CHANNEL,
      created_at: DATES.created_at,
    },
    shownBy: in_.apiEvents(
      'a subscription has its fields, and is made, listed and removed by triple and by id',
    ),
  },
  AutoSubscription: {
    fields: {
      id: 'Starts with `as_`',
      event_name: '`$errors` or `$logs`',
      listener_id: 'Webhook, source or workflow',
      created_at: DATES.created_at,
    },
    shownBy: in_.apiEvents(
      'an auto-subscription has its fields, and subscribes the listener to sources created later',
    ),
  },
  Webhook: { fields: WEBHOOK_FIELDS, shownBy: WEBHOOK },
  WebhookWithSecret: {
    fields: { ...WEBHOOK_FIELDS, secret: '`whsec_…`, shown on creation and rotation only' },
    shownBy: WEBHOOK,
  },
  Delivery: {
    fields: {
      id: 'Starts with `dlv_`',
      webhook_id: 'Its webhook',
      emitter_id: 'Source or workflow; null for a test',
      event_id: 'Its event; null for a test',
      event_name: CHANNEL,
      status: '`pending`, `delivered` or `failed`',
      attempts: 'Attempts so far',
      next_attempt_at: 'Epoch seconds, or null',
      created_at: DATES.created_at,
      attempt_log: 'The newest attempts, newest first',
      'attempt_log[].number': 'From 1',
      'attempt_log[].at': 'Start in epoch seconds',
      'attempt_log[].duration_ms': 'Duration',
      'attempt_log[].status': 'Status of the answer, or null',
      'attempt_log[].error': 'Why there was no answer, or null',
      'attempt_log[].response_headers': 'Headers of the answer, or null',
      'attempt_log[].response_body': 'Beginning of the answer, or null',
    },
    shownBy: WEBHOOK,
    except: {
      'attempt_log[].response_body': in_.attempts(
        'attempts › the log keeps the beginning of each response, and why there was none',
      ),
    },
  },
  Recovered: { fields: { count: 'Deliveries that are tried again' }, shownBy: WEBHOOK },
  PageInfo: {
    fields: {
      total_count: 'Items in all',
      count: 'Items of this page',
      start_cursor: 'Of the first item, or null',
      end_cursor: 'Of the last item, or null',
    },
    shownBy: in_.apiOwners(
      'lists have pages of 10 unless limit says 1 to 100, and cursors in both directions',
    ),
  },
  ErrorBody: {
    fields: {
      error: 'A sentence for a person',
      code: 'For programs',
      param: 'The parameter at fault, if one is',
      sources: 'Sources that use the component',
      workflows: 'Workflows that use the component',
      request_id: 'As in the header `x-request-id`',
    },
    shownBy: FAILURE,
    except: { workflows: [...FAILURE, ...REFUSED_CODE] },
  },
  ...OWNER_FIELDS,
};
