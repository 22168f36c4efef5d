import { LIMITS } from '@wellspring/contract/limits';
import { isTooDeep, MAX_DEPTH } from '@wellspring/core/json-depth';
import type { ChildIO } from './program-types.ts';

/** `$service.db`: synchronous, values as JSON. */
export interface ChildDatabase {
  get(key: unknown): unknown;
  set(key: unknown, value: unknown): void;
}

/** @param entries JSON texts by key; changed in place */
export function createDatabase(io: ChildIO, entries: Map<string, string>): ChildDatabase {
  const size = (key: string, json: string | undefined) =>
    json === undefined ? 0 : Buffer.byteLength(key) + Buffer.byteLength(json);
  return {
    get(key) {
      const json = entries.get(String(key));
      return json === undefined ? undefined : JSON.parse(json);
    },
    set(key, value) {
      const name = String(key);
      if (value === undefined) {
        if (!entries.has(name)) return;
        io.dbSet(name, undefined);
        entries.delete(name);
        return;
      }
      const json = JSON.stringify(value);
      if (json === undefined)
        throw new TypeError(`$service.db cannot keep the value of ${name}: JSON cannot hold it.`);
      if (isTooDeep(json))
        throw new RangeError(
          `$service.db cannot keep the value of ${name}: it is nested more than ${MAX_DEPTH} levels deep.`,
        );
      let bytes = size(name, json) - size(name, entries.get(name));
      for (const [other, text] of entries) bytes += size(other, text);
      if (bytes > LIMITS.db) {
        throw new RangeError(`$service.db holds at most ${LIMITS.db / 1024} KB in all; ${name} was not set.`);
      }
      io.dbSet(name, json);
      entries.set(name, json);
    },
  };
}
