import type { RevisionRow } from './collections/revisions.ts';
import type { Collection, CollectionDefinition, Row } from './port.ts';

/** Raises the revision of a collection after each of its writes, if it declares one. */
export function counted<T extends Row>(
  collection: Collection<T>,
  { revision }: CollectionDefinition<T>,
  revisions: () => Collection<RevisionRow>,
): Collection<T> {
  if (!revision) return collection;
  const { of: id, except = [] } = revision;
  /** Also after an error: the write may have taken effect. */
  const raising =
    <A extends unknown[], R>(write: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      try {
        return await write(...args);
      } finally {
        await revisions().increment(id, { n: 1 }, { id, n: 0 });
      }
    };
  const { patch } = collection;
  const raisingPatch = raising(patch);
  return {
    ...collection,
    insert: raising(collection.insert),
    insertMany: raising(collection.insertMany),
    replace: raising(collection.replace),
    patch: (id, fields, where) =>
      (Object.keys(fields).every((field) => except.includes(field as never)) ? patch : raisingPatch)(
        id,
        fields,
        where,
      ),
    increment: raising(collection.increment),
    remove: raising(collection.remove),
    removeWhere: raising(collection.removeWhere),
    claim: raising(collection.claim),
  };
}
