import Type from 'typebox';
import { defineEndpoint } from '../endpoint.ts';
import { LIMITS } from '../limits.ts';
import { Account, Nothing } from '../resources.ts';
import { common, paging } from './parameters.ts';

const service = 'sources';
const app = Type.String({ description: 'Slug of the app, e.g. github', pattern: '^[a-z0-9_-]{1,256}$' });

const shown = {
  include_credentials: Type.Optional(
    Type.Union([Type.Literal('1'), Type.Literal('true'), Type.Literal('0'), Type.Literal('false')], {
      description: '1: with the credentials',
    }),
  ),
};

const credentials = Type.Record(Type.String(), Type.String(), {
  minProperties: 1,
  maxProperties: LIMITS.credentials,
  description: 'Texts by the field of $auth, e.g. {"api_key": "…"}; at most 100 fields and 64 KB',
});
const name = Type.Optional(Type.Union([Type.String(), Type.Null()]));

export const createAccount = defineEndpoint({
  service,
  operationId: 'createAccount',
  method: 'POST',
  path: '/accounts',
  summary: 'Store credentials for an app; app props use them as $auth',
  description:
    'The credentials are encrypted, and not returned unless asked for. An app prop takes the account as {"authProvisionId": "apn_…"}. With org_id, the account belongs to the organization, and sources of its members may use it.',
  example: { app: 'github', name: 'Work', credentials: { oauth_access_token: 'gho_16C7e42F292c69' } },
  input: Type.Object({
    app,
    name,
    credentials,
    ...common,
  }),
  output: Account,
  envelope: 'single',
  problems: [403, 413, 415],
});

export const listMyAccounts = defineEndpoint({
  service,
  operationId: 'listMyAccounts',
  method: 'GET',
  path: '/users/me/accounts',
  summary: 'List your accounts, newest first',
  description:
    'Cursors of page_info lead to the pages after and before. Accounts of your organizations are listed under the organization, or with org_id.',
  input: Type.Object({ app: Type.Optional(app), ...shown, ...paging, ...common }),
  output: Account,
  envelope: 'page',
});

export const listOrgAccounts = defineEndpoint({
  service,
  operationId: 'listOrgAccounts',
  method: 'GET',
  path: '/orgs/{org_id}/accounts',
  summary: 'List the accounts of an organization, newest first',
  description: 'For members of the organization. Cursors of page_info lead to the pages after and before.',
  input: Type.Object({ app: Type.Optional(app), ...shown, ...paging, ...common }),
  output: Account,
  envelope: 'page',
  problems: [404],
});

export const getAccount = defineEndpoint({
  service,
  operationId: 'getAccount',
  method: 'GET',
  path: '/accounts/{id}',
  summary: 'Get an account',
  description: 'With its credentials only if include_credentials is 1.',
  input: Type.Object({ ...shown, ...common }),
  output: Account,
  envelope: 'single',
  problems: [404],
});

export const updateAccount = defineEndpoint({
  service,
  operationId: 'updateAccount',
  method: 'PUT',
  path: '/accounts/{id}',
  summary: 'Change name or credentials of an account',
  description: 'Credentials are replaced as a whole; runs that begin later get the new ones.',
  example: { credentials: { oauth_access_token: 'gho_16C7e42F292c6912E7710c838347Ae178B4a' } },
  input: Type.Object({ name, credentials: Type.Optional(credentials), ...common }),
  output: Account,
  envelope: 'single',
  problems: [404, 413, 415],
});

export const deleteAccount = defineEndpoint({
  service,
  operationId: 'deleteAccount',
  method: 'DELETE',
  path: '/accounts/{id}',
  summary: 'Delete an account',
  description: 'Runs that begin later find an empty $auth; give such sources another account.',
  input: Type.Object(common),
  output: Nothing,
  envelope: 'none',
  status: 204,
  problems: [404],
});
