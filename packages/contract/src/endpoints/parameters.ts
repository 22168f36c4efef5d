import Type from 'typebox';
import { channelName } from '../resource-fields.ts';

// Schemas of parameters that several endpoints share. Objects of several parameters are spread into the input.

export const orgId = {
  org_id: Type.Optional(Type.String({ description: 'The organization in which to act' })),
};

export const fields = {
  include: Type.Optional(Type.String({ description: 'Fields to return, separated by commas; default all' })),
  exclude: Type.Optional(Type.String({ description: 'Fields to leave out, separated by commas' })),
};

/** Of nearly every endpoint of the public API. */
export const common = { ...fields, ...orgId };

export const paging = {
  limit: Type.Optional(
    Type.Integer({ minimum: 1, description: 'Page size, default 10; more than 100 counts as 100' }),
  ),
  after: Type.Optional(Type.String({ description: 'A cursor; the page of the next older items' })),
  before: Type.Optional(Type.String({ description: 'A cursor; the page of the next newer items' })),
};

export const eventName = Type.Optional(channelName);

/** Code in the examples of the OpenAPI documents. */
export const EXAMPLE_CODE =
  "export default { name: 'Orders', version: '1.0.0', props: { timer: '$.interface.timer' }, run() { this.$emit({ order: 1001 }); } };";

/** Null counts as absent. */
export const optionalText = Type.Optional(Type.Union([Type.String(), Type.Null()]));

/** Of an API key. */
export const keyName = Type.Optional(
  Type.Union([Type.String({ minLength: 1, maxLength: 200 }), Type.Null()], {
    description: 'A note for people; need not be unique',
  }),
);

/** The four ways to name a component; of several that are given, the first in this order counts. */
export const identifiers = {
  component_id: optionalText,
  component_code: optionalText,
  key: Type.Optional(
    Type.Union([
      Type.String({
        description: 'Key, or key@version, of a published component of the owner or of the registry',
      }),
      Type.Null(),
    ]),
  ),
  component_url: optionalText,
};
export const IDENTIFIER_NAMES = Object.keys(identifiers);

export const configuredProps = (description: string) =>
  Type.Optional(Type.Record(Type.String(), Type.Unknown(), { description }));
