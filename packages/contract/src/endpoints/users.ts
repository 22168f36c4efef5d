import Type from 'typebox';
import { defineEndpoint } from '../endpoint.ts';
import { ApiKey, ApiKeyWithText, Me, Member, Nothing } from '../resources.ts';
import { common, keyName, paging } from './parameters.ts';

const service = 'gateway';

export const getMe = defineEndpoint({
  service,
  operationId: 'getMe',
  method: 'GET',
  path: '/users/me',
  summary: 'Get the account of the API key, with its organizations and use',
  description:
    'The fields of use and quotas depend on the plan: free accounts have daily, paid ones billing figures.',
  input: Type.Object(common),
  output: Me,
  envelope: 'single',
});

export const listMyApiKeys = defineEndpoint({
  service,
  operationId: 'listMyApiKeys',
  method: 'GET',
  path: '/users/me/api_keys',
  summary: 'List your API keys, without their texts',
  description: 'The texts of keys are stored as hashes and cannot be shown.',
  input: Type.Object(common),
  output: ApiKey,
  envelope: 'list',
});

export const createMyApiKey = defineEndpoint({
  service,
  operationId: 'createMyApiKey',
  method: 'POST',
  path: '/users/me/api_keys',
  summary: 'Make a further API key; its text is shown only here',
  description: 'Keep the text; it cannot be shown again. The key has the same rights as the one used.',
  example: { name: 'deployments' },
  input: Type.Object({ name: keyName, ...common }),
  output: ApiKeyWithText,
  envelope: 'single',
  problems: [409],
});

export const deleteMyApiKey = defineEndpoint({
  service,
  operationId: 'deleteMyApiKey',
  method: 'DELETE',
  path: '/users/me/api_keys/{key_id}',
  summary: 'Revoke an API key of yours',
  description: 'It is refused within two seconds, and its open streams end within twenty.',
  input: Type.Object(common),
  output: Nothing,
  envelope: 'none',
  status: 204,
  problems: [404],
});

export const listOrgMembers = defineEndpoint({
  service,
  operationId: 'listOrgMembers',
  method: 'GET',
  path: '/orgs/{org_id}/members',
  summary: 'List the members of an organization, newest user first',
  description: 'For members of the organization. Cursors of page_info lead to the pages after and before.',
  input: Type.Object({ ...paging, ...common }),
  output: Member,
  envelope: 'page',
  problems: [404],
});
