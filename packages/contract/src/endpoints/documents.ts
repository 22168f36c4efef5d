import Type from 'typebox';
import { defineEndpoint } from '../endpoint.ts';

const document = {
  service: 'gateway',
  method: 'GET',
  path: '/openapi.json',
  authenticated: false,
  summary: 'This document',
  description: 'OpenAPI 3.1, made from the declarations that validate requests.',
  input: Type.Object({}),
  output: Type.Unknown(),
  envelope: 'raw',
} as const;

export const getOpenApi = defineEndpoint({ ...document, operationId: 'getOpenApi' });

export const operatorGetOpenApi = defineEndpoint({
  ...document,
  operationId: 'operatorGetOpenApi',
  listener: 'operator',
});
