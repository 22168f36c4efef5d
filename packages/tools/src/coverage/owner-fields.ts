import type { ResourceFields } from './row.ts';
import * as in_ from './suites.ts';

export const DATES = {
  created_at: 'Creation, integer epoch seconds',
  updated_at: 'Last change, integer epoch seconds',
};
const USER_FIELDS = {
  id: 'Starts with `u_`',
  username: 'Unique',
  email: 'Address',
  plan: '`free` or `paid`',
  quotas: 'Daily quotas, null where none is set',
  ...DATES,
};
const ORG_OF_USER = {
  id: 'Starts with `o_`',
  name: 'For people',
  orgname: 'Unique',
  email: 'Address',
};
const USER = in_.apiOwners(
  'a user has the fields of its plan: daily use and quotas, or those of the billing period',
);
const USED = in_.apiOwners(
  'a run counts as an invocation of its owner, with its compute time in milliseconds',
);
const KEY = in_.apiOwners('an API key has its fields; its text is shown when it is made');
const KEY_FIELDS = {
  id: 'Starts with `key_`',
  name: 'As given, or null',
  created_at: DATES.created_at,
  last_used_at: 'Last request with it to within a minute, integer epoch seconds, or null',
};
const MEMBERS = in_.apiOwners(
  'members of an organization see each other, page by page, and strangers do not',
);
const COMPONENT = in_.apiComponents(
  'a component has its fields, and is found by id, by key, in the lists and in the registry',
);

/** Fields of users, organizations, and of what the operator sees. */
export const OWNER_FIELDS: Record<string, ResourceFields> = {
  Me: {
    fields: {
      id: 'Starts with `u_`',
      username: 'Unique',
      email: 'Address',
      orgs: 'Organizations of the user',
      daily_compute_time_quota: 'Of a free account, in milliseconds',
      daily_compute_time_used: 'Of a free account, today, in milliseconds',
      daily_invocations_quota: 'Of a free account',
      daily_invocations_used: 'Of a free account, today',
      billing_period_start_ts: 'Of a paid account, epoch seconds',
      billing_period_end_ts: 'Of a paid account, epoch seconds',
      billing_period_invocations: 'Of a paid account, in this period',
    },
    shownBy: USER,
    except: {
      daily_compute_time_used: [...USER, ...USED],
      daily_invocations_used: [...USER, ...USED],
    },
  },
  OrgOfUser: { fields: ORG_OF_USER, shownBy: USER },
  Member: { fields: { id: 'Starts with `u_`', username: 'Unique', email: 'Address' }, shownBy: MEMBERS },
  ApiKey: {
    fields: KEY_FIELDS,
    shownBy: KEY,
    except: {
      last_used_at: [
        ...KEY,
        ...in_.authenticate(
          'the use of a key is written at most once a minute, however many requests it has',
        ),
      ],
    },
  },
  ApiKeyWithText: { fields: { ...KEY_FIELDS, api_key: 'Its text, shown once' }, shownBy: KEY },
  User: { fields: USER_FIELDS, shownBy: USER },
  UserWithKey: { fields: { ...USER_FIELDS, api_key: 'Text of its first key, shown once' }, shownBy: USER },
  Quotas: {
    fields: { daily_invocations_quota: 'Or null', daily_compute_time_quota: 'Milliseconds, or null' },
    shownBy: USER,
  },
  Plan: { fields: {}, shownBy: USER },
  Org: {
    fields: {
      ...ORG_OF_USER,
      code_allow_networks: 'Private networks that its code may reach',
      ...DATES,
    },
    shownBy: USER,
  },
  RegistryVersion: {
    fields: {
      key: 'Key of the component',
      version: 'Semantic version',
      component_id: 'Its component, `sc_…`',
      content_hash: 'SHA-256 of code and modules in hex',
      created_at: 'Publication, integer epoch seconds',
    },
    shownBy: COMPONENT,
  },
  DeadLetter: {
    fields: {
      id: 'Id',
      queue: 'Its queue',
      key: 'Its ordering key',
      payload: 'The message',
      reason: 'Why it was given up',
      attempts: 'Attempts that failed',
      died_at: 'Epoch milliseconds',
    },
    shownBy: in_.operator('dead letters are listed, retried and dropped'),
  },
  Workflow: {
    fields: {
      id: 'Starts with `p_`',
      owner_id: 'User or organization',
      name: 'Of the definition',
      definition: 'As given, with secrets masked',
      deployment_id: '`d_…`, one per definition',
      trigger: 'What starts it',
      'trigger.source_id': 'The source',
      'trigger.endpoint_url': 'Its endpoint, or null',
      ...DATES,
    },
    shownBy: in_.apiOwners(
      'a workflow has its fields; its events, errors, logs, runs and stream are read as those of a source',
    ),
  },
  Nothing: { fields: {}, shownBy: [] },
};
