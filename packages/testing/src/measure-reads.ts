import type { Store } from '@wellspring/store/port';

/** A store with the same rows, and the bytes of the rows that its lists have returned. */
export function measureReads(store: Store): { store: Store; bytes: () => number } {
  let bytes = 0;
  const measured: Store = {
    ...store,
    collection(definition) {
      const rows = store.collection(definition);
      return {
        ...rows,
        async list(options) {
          const found = await rows.list(options);
          bytes += JSON.stringify(found).length;
          return found;
        },
      };
    },
  };
  return { store: measured, bytes: () => bytes };
}
