import type { TSchema } from 'typebox';
import * as resources from '../resources.ts';

const RESOURCES: Record<string, TSchema> = { ...resources };
const NAMES = new Map<unknown, string>(Object.entries(RESOURCES).map(([name, schema]) => [schema, name]));
const PREFIX = '#/components/schemas/';

/** Named schemas of a document, collected while it is made. */
export interface Schemas {
  /** The schema as plain JSON; resources in it become references. */
  plain(schema: TSchema): Record<string, unknown>;
  /** A reference to a resource, or any other schema as plain JSON. */
  reference(schema: TSchema): Record<string, unknown>;
  /** Adds a schema under a name. @returns a reference to it */
  named(name: string, schema: Record<string, unknown>): Record<string, unknown>;
  /** All named schemas that are referred to, by name. */
  all(): Record<string, unknown>;
}

/** Name of a resource; undefined for other schemas. */
export const nameOf = (schema: TSchema): string | undefined => NAMES.get(schema);

export function createSchemas(): Schemas {
  const found = new Map<string, Record<string, unknown>>();

  const plain = (schema: TSchema): Record<string, unknown> =>
    JSON.parse(
      JSON.stringify(schema, (key, value) => {
        const name = key === '' ? undefined : NAMES.get(value);
        return name === undefined ? value : resource(name);
      }),
    );

  function resource(name: string): Record<string, unknown> {
    if (!found.has(name)) {
      found.set(name, {});
      found.set(name, plain(RESOURCES[name]!));
    }
    return { $ref: PREFIX + name };
  }

  return {
    plain,
    reference(schema) {
      const name = nameOf(schema);
      return name === undefined ? plain(schema) : resource(name);
    },
    named(name, schema) {
      found.set(name, schema);
      return { $ref: PREFIX + name };
    },
    all: () => Object.fromEntries([...found].sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}
