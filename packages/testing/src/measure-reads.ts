import type { Store } from '@wellspring/store/port';

/** A store with the same rows, and the bytes of the rows that its lists and claims have returned. */
export function measureReads(store: Store): { store: Store; bytes: () => number } {
  let bytes = 0;
  const measured: Store = {
    ...store,
    collection(definition) {
      const rows = store.collection(definition);
      const counted = <R>(found: R): R => {
        bytes += JSON.stringify(found).length;
        return found;
      };
      return {
        ...rows,
        list: async (options) => counted(await rows.list(options)),
        claim: async (options, fields) => counted(await rows.claim(options, fields)),
      };
    },
  };
  return { store: measured, bytes: () => bytes };
}
