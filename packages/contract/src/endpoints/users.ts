import Type from 'typebox';
import { defineEndpoint } from '../endpoint.ts';
import { ApiKey, ApiKeyWithText, Me, Nothing } from '../resources.ts';
import { common } from './parameters.ts';

const service = 'gateway';

export const getMe = defineEndpoint({
  service,
  operationId: 'getMe',
  method: 'GET',
  path: '/users/me',
  summary: 'Get the account of the API key, with its organizations and use',
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
  input: Type.Object(common),
  output: ApiKeyWithText,
  envelope: 'single',
});

export const deleteMyApiKey = defineEndpoint({
  service,
  operationId: 'deleteMyApiKey',
  method: 'DELETE',
  path: '/users/me/api_keys/{key_id}',
  summary: 'Revoke an API key of yours',
  input: Type.Object(common),
  output: Nothing,
  envelope: 'none',
  status: 204,
  problems: [404],
});
