import Type from 'typebox';
import { defineEndpoint } from '../endpoint.ts';
import { Component, Nothing, RegistryVersion } from '../resources.ts';
import { EXAMPLE_CODE, fields } from './parameters.ts';

/** The registry of components, in the operator API. */

const texts = (description: string) =>
  Type.Optional(Type.Record(Type.String(), Type.String(), { description }));
const bare = Type.Object(fields);
const components = { listener: 'operator', service: 'components' } as const;

export const operatorPublish = defineEndpoint({
  ...components,
  operationId: 'operatorPublish',
  method: 'PUT',
  path: '/registry',
  summary: 'Publish a component for everybody under its own key and semantic version',
  description:
    'A component of several files is given with its modules. A version never changes: to publish it again is a 409, also with the same code; `content_hash` in the list of versions tells what is published.',
  example: { component_code: EXAMPLE_CODE },
  input: Type.Object({
    component_code: Type.String({ minLength: 1 }),
    component_path: Type.Optional(
      Type.String({ description: 'Path of the code in its folder; relative imports start from it' }),
    ),
    modules: texts(
      'Texts of the modules that are imported by relative specifiers, by their path in the folder',
    ),
    imports: texts('Paths of modules by the specifier that names them, instead of an npm package'),
    dependencies: texts('Versions or ranges of npm packages that are imported without one'),
    ...fields,
  }),
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
  description: 'By key, the newest version first.',
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
