import { LIMITS } from '@wellspring/contract/limits';
import type { EmitterStateRow } from '@wellspring/store/collections/states';
import type { CommitGroup } from './commit-group.ts';

/** The state of a source as its runs see it: ahead of the stored one by what runs and what is being committed. */
export interface Live {
  /** As the newest commit leaves it. */
  row: EmitterStateRow;
  /** Of the row, once that commit is written. */
  version: number;
  /** `$service.db` as code sees it: with the sets of runs and hooks that are not over yet. */
  db: Record<string, string>;
  dbBytes: number;
  dbRevision: number;
  /** By key: the revision of the set that is in the row. */
  committedSets: Map<string, number>;
  /** Runs that ended in this turn, and are about to be written. */
  group: CommitGroup | undefined;
  /** A commit was refused or failed: nothing built on this state can be written any more. */
  stale: boolean;
  /** Epoch ms at which the last run, and the last run of a timer, ended; 0: none since the state was read. */
  runEndedAt: number;
  tickEndedAt: number;
}

/** A change of `$service.db` that took effect. */
export interface DbSet {
  key: string;
  /** JSON text; undefined: the key was removed. */
  json: string | undefined;
  /** Of the map after the change. */
  revision: number;
}

/**
 * Each state read has a range of revisions of its own, so that a process of code never takes one map for another; a
 * set raises the revision by one.
 */
const SETS = 2 ** 30;
let reads = 0;

const sizeOf = (db: Record<string, string>) =>
  Object.entries(db).reduce((sum, [key, json]) => sum + Buffer.byteLength(key) + Buffer.byteLength(json), 0);

/** The live copy of a stored state, or of a source that has none yet. */
export function liveState(
  sourceId: string,
  found: { row: EmitterStateRow; version: number } | undefined,
): Live {
  const row = found?.row ?? { id: sourceId, db: {}, dedupe: {}, last_ids: {}, committed: [] };
  return {
    row,
    version: found?.version ?? 0,
    db: { ...row.db },
    dbBytes: sizeOf(row.db),
    dbRevision: ++reads * SETS,
    committedSets: new Map(),
    group: undefined,
    stale: false,
    runEndedAt: 0,
    tickEndedAt: 0,
  };
}

function put(db: Record<string, string>, key: string, json: string | undefined): void {
  if (json === undefined) delete db[key];
  // Keys are the code's: also `__proto__` is only a key.
  else Object.defineProperty(db, key, { value: json, enumerable: true, configurable: true, writable: true });
}

/** Changes the map that code sees; a sentence when the change would make it too large. */
export function setDb(live: Live, key: string, json: string | undefined): DbSet | string {
  const { db } = live;
  const entry = (text: string | undefined) =>
    text === undefined ? 0 : Buffer.byteLength(key) + Buffer.byteLength(text);
  const bytes = live.dbBytes + entry(json) - entry(Object.hasOwn(db, key) ? db[key] : undefined);
  if (bytes > LIMITS.db)
    return `$service.db holds at most ${LIMITS.db / 1024} KB; the key ${key.slice(0, 80)} was not set.`;
  put(db, key, json);
  live.dbBytes = bytes;
  live.dbRevision += 1;
  return { key, json, revision: live.dbRevision };
}

/**
 * The map that a commit stores: the one before and what this run has set, not what runs and hooks beside and behind
 * it have: a crash would keep their sets and lose their events. A set that a later one overtook stays undone.
 */
export function commitSets(live: Live, sets: readonly DbSet[]): Record<string, string> {
  if (sets.length === 0) return live.row.db;
  const db = { ...live.row.db };
  for (const { key, json, revision } of sets) {
    if (revision < (live.committedSets.get(key) ?? 0)) continue;
    live.committedSets.set(key, revision);
    put(db, key, json);
  }
  return db;
}
