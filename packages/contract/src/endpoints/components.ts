import Type from 'typebox';
import { defineEndpoint } from '../endpoint.ts';
import { Component } from '../resources.ts';
import { common, EXAMPLE_CODE } from './parameters.ts';

const service = 'components';
const one = { service, output: Component, envelope: 'single' } as const;

export const createComponent = defineEndpoint({
  ...one,
  operationId: 'createComponent',
  method: 'POST',
  path: '/components',
  summary: 'Save a component from its code or its URL; it is published under its key for its owner',
  description:
    'Give component_code or component_url. The code is compiled, its packages are installed, and its definition is read in a sandbox. The same code saved again by the same owner gives the same component.',
  exactlyOne: ['component_code', 'component_url'],
  example: { component_code: EXAMPLE_CODE },
  input: Type.Object({
    component_code: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    component_url: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    ...common,
  }),
  problems: [403, 409, 413, 415],
});

export const getComponent = defineEndpoint({
  ...one,
  operationId: 'getComponent',
  method: 'GET',
  path: '/components/{id}',
  summary: 'Get a component by its id, its key, key@version or key@range',
  description: 'An id finds components of your own and of the registry; a key finds your own first.',
  input: Type.Object(common),
  problems: [404],
});

export const getRegistryComponent = defineEndpoint({
  ...one,
  operationId: 'getRegistryComponent',
  method: 'GET',
  path: '/components/registry/{key}',
  summary:
    'Get the newest version of a component of the registry, the one of key@version, or the newest in key@range',
  description: 'The registry is shared by everybody; the operator publishes to it.',
  input: Type.Object(common),
  problems: [404],
});
