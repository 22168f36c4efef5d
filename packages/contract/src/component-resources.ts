import Type from 'typebox';
import { dates, nullable } from './resource-fields.ts';

/** Components, their props, and what a test run of one gives. */

export const PropDescriptor = Type.Object(
  {
    name: Type.String(),
    type: Type.String({ description: 'A PropType; with [] an array of it' }),
    label: Type.Optional(Type.String()),
    description: Type.Optional(Type.String({ description: 'Markdown' })),
    default: Type.Optional(Type.Unknown()),
    app: Type.Optional(Type.String({ description: 'Of type app: the slug of the app' })),
    optional: Type.Optional(Type.Boolean()),
    secret: Type.Optional(Type.Boolean()),
    min: Type.Optional(Type.Number()),
    max: Type.Optional(Type.Number()),
  },
  { additionalProperties: true },
);

export const Component = Type.Object({
  id: Type.String({ description: 'sc_…' }),
  code: Type.String(),
  code_hash: Type.String({ description: 'SHA-256 of the code, hex' }),
  name: Type.String(),
  key: nullable(Type.String()),
  version: Type.String(),
  type: Type.String(),
  description: nullable(Type.String()),
  component_url: nullable(Type.String({ description: 'Where the code came from, or was said to come from' })),
  configurable_props: Type.Array(PropDescriptor),
  ...dates,
});

export const ConfigurableProps = Type.Object({ configurable_props: Type.Array(PropDescriptor) });

export const PropOptions = Type.Object({
  options: Type.Array(Type.Object({ label: Type.String(), value: Type.Unknown() })),
  context: Type.Unknown({ description: 'prev_context of the next page; null: none' }),
});

export const TestRun = Type.Object({
  ok: Type.Boolean({ description: 'Nothing was thrown, and every emit succeeded' }),
  emitted: Type.Array(
    Type.Object({
      event: Type.Unknown(),
      name: Type.String({ description: 'Channel; empty: the default one' }),
      id: nullable(Type.Union([Type.String(), Type.Number()])),
      summary: nullable(Type.String()),
      ts: nullable(Type.Number()),
    }),
    { description: 'In the order of the calls of $emit, before dedupe' },
  ),
  logs: Type.Array(
    Type.Object({
      ts: Type.Integer({ description: 'Epoch ms' }),
      level: Type.String({ description: 'debug, info, warn or error' }),
      msg: Type.String(),
    }),
  ),
  response: nullable(
    Type.Object(
      {
        status: Type.Integer(),
        headers: Type.Record(Type.String(), Type.Unknown()),
        body: Type.String({ description: 'Text; Base64 if it is not UTF-8' }),
        base64: Type.Boolean(),
      },
      { description: 'Of http.respond, or of $.respond' },
    ),
  ),
  exports: Type.Record(Type.String(), Type.Unknown(), {
    description: 'Of an action: its exports, and its return value as $return_value',
  }),
  sends: Type.Array(Type.Object({ kind: Type.String(), request: Type.Unknown() }), {
    description: 'Of an action: requests of $.send.http, .email and .s3, which are not made',
  }),
  truncated: Type.Boolean({ description: 'Items were left out: at most 1,000 of each list, and 4 MB' }),
  duration_ms: Type.Integer(),
  error: nullable(
    Type.Object(
      {
        code: Type.String(),
        msg: Type.String(),
        stack: Type.String(),
        cause: Type.Optional(Type.String({ description: 'What caused it, as Node.js prints it' })),
      },
      { description: 'The first error, as in $errors' },
    ),
  ),
});
