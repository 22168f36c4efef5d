import Type from 'typebox';
import { defineEndpoint } from '../endpoint.ts';
import { Component, Nothing, RegistryVersion } from '../resources.ts';
import { EXAMPLE_CODE, fields } from './parameters.ts';

/** The registry of components, in the operator API. */

const bare = Type.Object(fields);
const components = { listener: 'operator', service: 'components' } as const;

export const operatorPublish = defineEndpoint({
  ...components,
  operationId: 'operatorPublish',
  method: 'PUT',
  path: '/registry',
  summary: 'Publish a component for everybody under its own key and semantic version',
  description:
    'A version never changes: the same code again is a success, other code under the same version a 409.',
  example: { component_code: EXAMPLE_CODE },
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
  description: 'Newest first for each key.',
  input: bare,
  output: RegistryVersion,
  envelope: 'list',
});

export const operatorUnpublish = defineEndpoint({
  ...components,
  operationId: 'operatorUnpublish',
  method: 'DELETE',
  path: '/registry/{key}/{version}',
  output: Nothing,
  envelope: 'none',
  status: 204,
  summary: 'Take a version out of the registry; sources deployed from it stay',
  description: 'The version cannot be deployed by its key any more.',
  input: bare,
  problems: [404],
});
