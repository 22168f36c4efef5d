import Type from 'typebox';

/** Parameters that many endpoints share. */

export const orgId = {
  org_id: Type.Optional(Type.String({ description: 'The organization in which to act' })),
};

export const fields = {
  include: Type.Optional(Type.String({ description: 'Fields to return, separated by commas; default all' })),
  exclude: Type.Optional(Type.String({ description: 'Fields to leave out, separated by commas' })),
};

export const common = { ...fields, ...orgId };

export const paging = {
  limit: Type.Optional(
    Type.Integer({ minimum: 1, description: 'Page size, default 10; more than 100 counts as 100' }),
  ),
  after: Type.Optional(Type.String({ description: 'A cursor: the items after it, which are older' })),
  before: Type.Optional(Type.String({ description: 'A cursor: the items before it, which are newer' })),
};

export const eventName = Type.Optional(Type.String({ description: 'Channel; empty: the default one' }));

/** Code of a component, for examples of the OpenAPI documents. */
export const EXAMPLE_CODE =
  "export default { name: 'Orders', version: '1.0.0', props: { timer: '$.interface.timer' }, run() { this.$emit({ order: 1001 }); } };";

/** A text; null counts as absent. */
export const text = Type.Optional(Type.Union([Type.String(), Type.Null()]));

/** Tells the keys of a user apart; need not be unique. */
export const keyName = Type.Optional(
  Type.Union([Type.String({ minLength: 1, maxLength: 200 }), Type.Null()], { description: 'For people' }),
);

/** The four ways to identify a component, by precedence. */
export const identifiers = {
  component_id: text,
  component_code: text,
  key: Type.Optional(
    Type.Union([
      Type.String({ description: 'Key of a component of one’s own or of the registry, also key@version' }),
      Type.Null(),
    ]),
  ),
  component_url: text,
};
export const IDENTIFIERS = Object.keys(identifiers);

/** Values of props, in a body. */
export const configuredProps = (description: string) =>
  Type.Optional(Type.Record(Type.String(), Type.Unknown(), { description }));
