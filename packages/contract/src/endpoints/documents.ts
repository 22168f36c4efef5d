import Type from 'typebox';
import { defineEndpoint } from '../endpoint.ts';

export const getOpenApi = defineEndpoint({
  service: 'gateway',
  operationId: 'getOpenApi',
  method: 'GET',
  path: '/openapi.json',
  authenticated: false,
  summary: 'This document',
  input: Type.Object({}),
  output: Type.Unknown(),
  envelope: 'raw',
});
