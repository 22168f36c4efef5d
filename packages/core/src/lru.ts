import { LRUCache } from 'lru-cache';

/** A map of at most `max` entries; beyond, the least recently used one is dropped. */
export const createLru = <V extends NonNullable<unknown>>(max: number): LRUCache<string, V> =>
  new LRUCache({ max });
