import { endpoints } from '@wellspring/contract/endpoints/all';
import * as resources from '@wellspring/contract/resources';

/** Fields and parameters of the contract, which need rows. */

interface ObjectSchema {
  properties?: Record<string, ObjectSchema>;
  items?: ObjectSchema;
  anyOf?: ObjectSchema[];
}

const known = new Set<unknown>(Object.values(resources));

/** Paths of the fields below a schema; those of another resource are listed with it. */
function fieldsBelow(schema: ObjectSchema, path: string): string[] {
  const object = schema.anyOf?.find(({ properties }) => properties) ?? schema;
  const [item, prefix] = object.items ? [object.items, `${path}[]`] : [object, path];
  if (path !== '' && known.has(item)) return [];
  return Object.entries(item.properties ?? {}).flatMap(([name, field]) => {
    const own = prefix === '' ? name : `${prefix}.${name}`;
    return [own, ...fieldsBelow(field, own)];
  });
}

/** Resource → paths of its fields, e.g. `metadata.name`, `orgs[].id`. */
export const contractFields = (): Record<string, string[]> =>
  Object.fromEntries(
    Object.entries(resources).map(([name, schema]) => [
      name,
      fieldsBelow(schema as unknown as ObjectSchema, ''),
    ]),
  );

/** Names of the parameters of all endpoints, besides those in paths. */
export const contractParameters = (): string[] => [
  ...new Set(Object.values(endpoints).flatMap(({ input }) => Object.keys(input.properties))),
];
