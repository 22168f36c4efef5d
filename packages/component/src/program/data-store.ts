import type { ChildDatabase } from './database.ts';

/** A prop of type `data_store`: values by key, kept in `$service.db` of the source under a prefix. */
export interface DataStore {
  get(key: string): Promise<unknown>;
  set(key: string, value: unknown): Promise<void>;
  has(key: string): Promise<boolean>;
  delete(key: string): Promise<boolean>;
  keys(): Promise<string[]>;
  entries(): Promise<[string, unknown][]>;
  size(): Promise<number>;
  clear(): Promise<void>;
}

/**
 * @param keys the keys of the database, by reference
 * @param name of the store: props with the same one share it
 */
export function createDataStore(
  database: ChildDatabase,
  keys: ReadonlyMap<string, unknown>,
  name: string,
): DataStore {
  const prefix = `data_store/${name}/`;
  const ownKeys = () =>
    [...keys.keys()].filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length));
  const has = (key: string) => keys.has(prefix + key);
  return {
    get: async (key) => database.get(prefix + key),
    set: async (key, value) => database.set(prefix + key, value),
    has: async (key) => has(key),
    async delete(key) {
      const found = has(key);
      database.set(prefix + key, undefined);
      return found;
    },
    keys: async () => ownKeys(),
    entries: async () => ownKeys().map((key) => [key, database.get(prefix + key)]),
    size: async () => ownKeys().length,
    async clear() {
      for (const key of ownKeys()) database.set(prefix + key, undefined);
    },
  };
}
