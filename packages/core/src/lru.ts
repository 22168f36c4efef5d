import { LRUCache } from 'lru-cache';

/** A map of at most `max` entries, or of that size in all; beyond, the least recently used ones are dropped. */
export const createLru = <V extends NonNullable<unknown>>(
  max: number,
  sizeOf?: (value: V) => number,
): LRUCache<string, V> =>
  new LRUCache(sizeOf ? { maxSize: max, sizeCalculation: (value) => sizeOf(value) } : { max });
