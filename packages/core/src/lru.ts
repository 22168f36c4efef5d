import { LRUCache } from 'lru-cache';

/** A map with at most `max` entries, or with `sizeOf` a total size of `max`; drops the least recently used entries. */
export const createLru = <V extends NonNullable<unknown>>(
  max: number,
  sizeOf?: (value: V) => number,
): LRUCache<string, V> =>
  new LRUCache(sizeOf ? { maxSize: max, sizeCalculation: (value) => sizeOf(value) } : { max });
