import { defineEndpoint } from '@wellspring/contract/endpoint';
import Type from 'typebox';

/** Endpoints for tests: one of each kind that the router treats differently. */

const fields = {
  include: Type.Optional(Type.String()),
  exclude: Type.Optional(Type.String()),
};
const Thing = Type.Object({ id: Type.String(), name: Type.String(), size: Type.Number() });
const input = Type.Object({
  name: Type.Optional(Type.String()),
  limit: Type.Optional(Type.Integer({ minimum: 1 })),
  active: Type.Optional(Type.Boolean()),
  extra: Type.Optional(Type.Unknown()),
  org_id: Type.Optional(Type.String()),
  ...fields,
});
const base = {
  service: 'sources',
  summary: 'For this test',
  description: 'For this test.',
  input,
  output: Thing,
} as const;
export const getThing = defineEndpoint({
  ...base,
  operationId: 'getThing',
  method: 'GET',
  path: '/things/{id}',
  envelope: 'single',
});
export const getMine = defineEndpoint({
  ...base,
  operationId: 'getMine',
  method: 'GET',
  path: '/things/mine',
  envelope: 'single',
});
export const listThings = defineEndpoint({
  ...base,
  operationId: 'listThings',
  method: 'GET',
  path: '/things',
  envelope: 'page',
});
export const addThing = defineEndpoint({
  ...base,
  operationId: 'addThing',
  method: 'POST',
  path: '/things',
  envelope: 'single',
});
export const dropThing = defineEndpoint({
  ...base,
  operationId: 'dropThing',
  method: 'DELETE',
  path: '/things/{id}',
  envelope: 'none',
  status: 204,
});
export const failing = defineEndpoint({
  ...base,
  operationId: 'failing',
  method: 'GET',
  path: '/failing/{how}',
  envelope: 'single',
});
export const open = defineEndpoint({
  ...base,
  operationId: 'open',
  method: 'GET',
  path: '/open',
  envelope: 'null',
  authenticated: false,
});
export const operate = defineEndpoint({
  ...base,
  operationId: 'operate',
  listener: 'operator',
  method: 'GET',
  path: '/things',
  envelope: 'null',
});
