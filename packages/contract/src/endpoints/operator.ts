import Type from 'typebox';
import { defineEndpoint } from '../endpoint.ts';
import {
  ApiKeyWithText,
  Component,
  DeadLetter,
  Nothing,
  Org,
  Plan,
  Quotas,
  RegistryVersion,
  User,
  UserWithKey,
} from '../resources.ts';
import { fields, paging } from './parameters.ts';

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
  input: bare,
  problems: [404],
});

export const operatorCreateApiKey = defineEndpoint({
  ...gateway,
  operationId: 'operatorCreateApiKey',
  method: 'POST',
  path: '/users/{id}/api_keys',
  summary: 'Make a further API key for a user',
  input: bare,
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
  input: bare,
  problems: [404],
});

export const operatorCreateOrg = defineEndpoint({
  ...gateway,
  operationId: 'operatorCreateOrg',
  method: 'POST',
  path: '/orgs',
  summary: 'Create an organization',
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
  input: bare,
  problems: [404],
});

const components = { ...operator, service: 'components' } as const;

export const operatorPublish = defineEndpoint({
  ...components,
  operationId: 'operatorPublish',
  method: 'PUT',
  path: '/registry',
  summary: 'Publish a component for everybody under its own key and semantic version',
  input: Type.Object({ component_code: Type.String({ minLength: 1 }), ...fields }),
  output: Component,
  envelope: 'single',
  problems: [409],
});

export const operatorListRegistry = defineEndpoint({
  ...components,
  operationId: 'operatorListRegistry',
  method: 'GET',
  path: '/registry',
  summary: 'List the published versions',
  input: bare,
  output: RegistryVersion,
  envelope: 'list',
});

export const operatorUnpublish = defineEndpoint({
  ...components,
  ...none,
  operationId: 'operatorUnpublish',
  method: 'DELETE',
  path: '/registry/{key}/{version}',
  summary: 'Take a version out of the registry; sources deployed from it stay',
  input: bare,
  problems: [404],
});

export const operatorListDeadLetters = defineEndpoint({
  ...gateway,
  operationId: 'operatorListDeadLetters',
  method: 'GET',
  path: '/dead_letters',
  summary: 'List jobs that the platform could not do, newest first',
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
  input: bare,
  output: Nothing,
  envelope: 'null',
  status: 202,
  problems: [404],
});

export const operatorDropDeadLetter = defineEndpoint({
  ...gateway,
  ...none,
  operationId: 'operatorDropDeadLetter',
  method: 'DELETE',
  path: '/dead_letters/{id}',
  summary: 'Drop a dead job',
  input: bare,
  problems: [404],
});
