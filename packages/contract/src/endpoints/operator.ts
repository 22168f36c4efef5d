import Type from 'typebox';
import { defineEndpoint } from '../endpoint.ts';
import {
  ApiKey,
  ApiKeyWithText,
  DeadLetter,
  Nothing,
  Org,
  Plan,
  Quotas,
  User,
  UserWithKey,
} from '../resources.ts';
import { fields, keyName, paging } from './parameters.ts';

const operator = { listener: 'operator' } as const;
const gateway = { ...operator, service: 'gateway' } as const;
const none = { output: Nothing, envelope: 'none', status: 204 } as const;
const bare = Type.Object(fields);
const page = Type.Object({ ...paging, ...fields });
const networks = Type.Array(Type.String({ maxLength: 64 }), {
  maxItems: 100,
  description:
    'Private networks (CIDRs) that its code may reach; new connections follow a change within a few seconds',
});
const name = (description: string) => Type.String({ minLength: 1, maxLength: 200, description });

export const operatorCreateUser = defineEndpoint({
  ...gateway,
  operationId: 'operatorCreateUser',
  method: 'POST',
  path: '/users',
  summary: 'Create a user with an API key, which is shown only here',
  description: 'Quotas are daily and unlimited unless given.',
  example: {
    username: 'ada',
    email: 'ada@example.com',
    plan: 'free',
    quotas: { daily_invocations_quota: 100000 },
  },
  input: Type.Object({
    username: name('Unique'),
    email: name('Address'),
    plan: Type.Optional(Plan),
    quotas: Type.Optional(Quotas),
    ...fields,
  }),
  output: UserWithKey,
  envelope: 'single',
  problems: [409],
});

export const operatorListUsers = defineEndpoint({
  ...gateway,
  operationId: 'operatorListUsers',
  method: 'GET',
  path: '/users',
  summary: 'List users, newest first',
  description: 'Cursors of page_info lead to the pages after and before.',
  input: page,
  output: User,
  envelope: 'page',
});

export const operatorGetUser = defineEndpoint({
  ...gateway,
  operationId: 'operatorGetUser',
  method: 'GET',
  path: '/users/{id}',
  summary: 'Get a user',
  description: 'The use of quotas is shown to the user only, by GET /users/me.',
  input: bare,
  output: User,
  envelope: 'single',
  problems: [404],
});

export const operatorUpdateUser = defineEndpoint({
  ...gateway,
  operationId: 'operatorUpdateUser',
  method: 'PUT',
  path: '/users/{id}',
  summary: 'Change email, plan or quotas of a user; null removes a quota',
  description: 'Omitted fields keep their values. Quotas apply from the next run.',
  example: { plan: 'paid', quotas: { daily_invocations_quota: null } },
  input: Type.Object({
    email: Type.Optional(name('Address')),
    plan: Type.Optional(Plan),
    quotas: Type.Optional(Quotas),
    ...fields,
  }),
  output: User,
  envelope: 'single',
  problems: [404],
});

export const operatorDeleteUser = defineEndpoint({
  ...gateway,
  ...none,
  operationId: 'operatorDeleteUser',
  method: 'DELETE',
  path: '/users/{id}',
  summary: 'Delete a user with everything that is theirs',
  description:
    'Sources, components, webhooks, subscriptions, events and keys go with the user. It cannot be undone.',
  input: bare,
  problems: [404],
});

export const operatorListApiKeys = defineEndpoint({
  ...gateway,
  operationId: 'operatorListApiKeys',
  method: 'GET',
  path: '/users/{id}/api_keys',
  summary: 'List the API keys of a user, without their texts',
  description: 'The texts of keys are stored as hashes and cannot be shown.',
  input: bare,
  output: ApiKey,
  envelope: 'list',
  problems: [404],
});

export const operatorCreateApiKey = defineEndpoint({
  ...gateway,
  operationId: 'operatorCreateApiKey',
  method: 'POST',
  path: '/users/{id}/api_keys',
  summary: 'Make a further API key for a user',
  description: 'Keep the text; it cannot be shown again.',
  example: { name: 'deployments' },
  input: Type.Object({ name: keyName, ...fields }),
  output: ApiKeyWithText,
  envelope: 'single',
  problems: [404],
});

export const operatorDeleteApiKey = defineEndpoint({
  ...gateway,
  ...none,
  operationId: 'operatorDeleteApiKey',
  method: 'DELETE',
  path: '/users/{id}/api_keys/{key_id}',
  summary: 'Revoke an API key of a user',
  description: 'It is refused within two seconds, and its open streams end within twenty.',
  input: bare,
  problems: [404],
});

export const operatorCreateOrg = defineEndpoint({
  ...gateway,
  operationId: 'operatorCreateOrg',
  method: 'POST',
  path: '/orgs',
  summary: 'Create an organization',
  description: 'It has no members yet: add them by PUT /orgs/{id}/members/{user_id}.',
  example: { orgname: 'acme', name: 'Acme', email: 'ops@example.com' },
  input: Type.Object({
    orgname: name('Unique'),
    name: name('For people'),
    email: name('Address'),
    code_allow_networks: Type.Optional(networks),
    ...fields,
  }),
  output: Org,
  envelope: 'single',
  problems: [409],
});

export const operatorListOrgs = defineEndpoint({
  ...gateway,
  operationId: 'operatorListOrgs',
  method: 'GET',
  path: '/orgs',
  summary: 'List organizations, newest first',
  description: 'Cursors of page_info lead to the pages after and before.',
  input: page,
  output: Org,
  envelope: 'page',
});

export const operatorGetOrg = defineEndpoint({
  ...gateway,
  operationId: 'operatorGetOrg',
  method: 'GET',
  path: '/orgs/{id}',
  summary: 'Get an organization',
  description: 'Shows the organization without its members.',
  input: bare,
  output: Org,
  envelope: 'single',
  problems: [404],
});

export const operatorUpdateOrg = defineEndpoint({
  ...gateway,
  operationId: 'operatorUpdateOrg',
  method: 'PUT',
  path: '/orgs/{id}',
  summary: 'Change an organization',
  description: 'Omitted fields keep their values.',
  example: { code_allow_networks: ['10.1.0.0/16'] },
  input: Type.Object({
    orgname: Type.Optional(name('Unique')),
    name: Type.Optional(name('For people')),
    email: Type.Optional(name('Address')),
    code_allow_networks: Type.Optional(networks),
    ...fields,
  }),
  output: Org,
  envelope: 'single',
  problems: [404, 409],
});

export const operatorDeleteOrg = defineEndpoint({
  ...gateway,
  ...none,
  operationId: 'operatorDeleteOrg',
  method: 'DELETE',
  path: '/orgs/{id}',
  summary: 'Delete an organization with everything that is its',
  description:
    'Sources, components, webhooks, subscriptions and events go with it; its members stay as users. It cannot be undone.',
  input: bare,
  problems: [404],
});

export const operatorPutMember = defineEndpoint({
  ...gateway,
  ...none,
  operationId: 'operatorPutMember',
  method: 'PUT',
  path: '/orgs/{id}/members/{user_id}',
  summary: 'Make a user a member of an organization',
  description: 'A member acts in the organization with org_id. A second call changes nothing.',
  input: bare,
  problems: [404],
});

export const operatorDeleteMember = defineEndpoint({
  ...gateway,
  ...none,
  operationId: 'operatorDeleteMember',
  method: 'DELETE',
  path: '/orgs/{id}/members/{user_id}',
  summary: 'End a membership',
  description: 'Subscriptions of the user that need the membership end with it.',
  input: bare,
  problems: [404],
});

export const operatorListDeadLetters = defineEndpoint({
  ...gateway,
  operationId: 'operatorListDeadLetters',
  method: 'GET',
  path: '/dead_letters',
  summary: 'List jobs that the platform could not do, newest first',
  description:
    'A job becomes a dead letter when it has failed repeatedly for a fault of the platform. A page is shorter than its limit when the payloads have more than 8 MB; the last one is empty.',
  input: Type.Object({ limit: paging.limit, after: paging.after, ...fields }),
  output: DeadLetter,
  envelope: 'list',
});

export const operatorRedriveDeadLetter = defineEndpoint({
  ...gateway,
  operationId: 'operatorRedriveDeadLetter',
  method: 'POST',
  path: '/dead_letters/{id}/redrive',
  summary: 'Retry a dead job',
  description: 'The job goes back to its queue, with a new count of attempts.',
  input: bare,
  output: Nothing,
  envelope: 'null',
  problems: [404],
});

export const operatorDropDeadLetter = defineEndpoint({
  ...gateway,
  ...none,
  operationId: 'operatorDropDeadLetter',
  method: 'DELETE',
  path: '/dead_letters/{id}',
  summary: 'Drop a dead job',
  description: 'The job is lost. It cannot be undone.',
  input: bare,
  problems: [404],
});
