import Type, { type TSchema } from 'typebox';

/** Fields that many resources share. */

export const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
export const seconds = (description: string) =>
  Type.Integer({ description: `${description}, epoch seconds` });
export const dates = { created_at: seconds('Created'), updated_at: seconds('Last changed') };

export const channelName = Type.String({
  description: 'Name of the channel; the empty one is that of emits without a name',
});
