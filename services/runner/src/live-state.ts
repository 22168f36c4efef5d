import { LIMITS } from '@wellspring/contract/limits';
import type { EmitterStateRow } from '@wellspring/store/collections/states';

/** The state of a source as its runs see it: ahead of the stored one by what is being committed. */
export interface Live {
  row: EmitterStateRow;
  version: number;
  dbBytes: number;
  dbRevision: number;
}

const sizeOf = (db: Record<string, string>) =>
  Object.entries(db).reduce((sum, [key, json]) => sum + Buffer.byteLength(key) + Buffer.byteLength(json), 0);

/** The live copy of a stored state, or of a source that has none yet. */
export function liveState(
  sourceId: string,
  found: { row: EmitterStateRow; version: number } | undefined,
  dbRevision: number,
): Live {
  const row = found?.row ?? { id: sourceId, db: {}, dedupe: {}, last_ids: {}, committed: [] };
  return {
    row: { ...row, db: { ...row.db } },
    version: found?.version ?? 0,
    dbBytes: sizeOf(row.db),
    dbRevision,
  };
}

/** Changes the live map; gives a sentence when the change would make it too large. */
export function setDb(live: Live, key: string, json: string | undefined): string | undefined {
  const { db } = live.row;
  const entry = (text: string | undefined) =>
    text === undefined ? 0 : Buffer.byteLength(key) + Buffer.byteLength(text);
  const bytes = live.dbBytes + entry(json) - entry(Object.hasOwn(db, key) ? db[key] : undefined);
  if (bytes > LIMITS.db)
    return `$service.db holds at most ${LIMITS.db / 1024} KB; the key ${key.slice(0, 80)} was not set.`;
  if (json === undefined) delete db[key];
  else Object.defineProperty(db, key, { value: json, enumerable: true, configurable: true, writable: true });
  live.dbBytes = bytes;
  live.dbRevision += 1;
  return undefined;
}
