import { LIMITS } from '@wellspring/contract/limits';
import type { EmitterStateRow } from '@wellspring/store/collections/states';
import type { CommitGroup } from './commit-group.ts';
import { createKnownRuns, type KnownRuns } from './known-runs.ts';

/** The state of a source as its runs see it: ahead of the stored one by the runs and commits in progress. */
export interface LiveState {
  /** After the newest commit, written or not. */
  row: EmitterStateRow;
  /** Of `stored`. */
  version: number;
  /** `$service.db` as code sees it: includes the sets of unfinished runs and hooks. */
  db: Record<string, string>;
  dbBytes: number;
  dbKeys: number;
  dbRevision: number;
  /** By key: the revision of the set that `row` holds, which may be a removal. */
  committedSets: Map<string, number>;
  /** About the memory of the removals in `committedSets`. */
  removalBytes: number;
  /** Removals up to this revision may be missing in `committedSets`. */
  forgottenRemovals: number;
  /** The stored state; fields that differ in `row` are still to be written. */
  stored: EmitterStateRow;
  /** Runs that have ended: not yet written, in order. */
  groups: CommitGroup[];
  /** A group is being written, or will be at the end of this turn. */
  isWriting: boolean;
  /** The newest committed runs, also those whose commit is in progress. */
  known: KnownRuns;
  /** A commit failed, or a run that may have changed it: nothing more may be built on this state. */
  stale: boolean;
  /** The newest runs; zeros: none since the state was loaded. */
  busy: BusyTime;
}

/** A time in which one run followed the other, in epoch ms. */
export interface BusyTime {
  since: number;
  until: number;
  /** The last ticks that were executed: when the first of them was due, and their timers. */
  ticks: { dueAt: number; props: readonly string[] };
}

/** A change of `$service.db`. */
export interface DbSet {
  key: string;
  /** JSON text; undefined if the key was removed. */
  json: string | undefined;
  /** Of the map after the change. */
  revision: number;
}

/**
 * Each loaded state has its own range of revisions, so that a sandbox process never mistakes one map for another. A set
 * raises the revision by one.
 */
const REVISIONS_PER_LOAD = 2 ** 30;
let loads = 0;

/** Code may remove any number of different keys. */
const MAX_REMOVAL_BYTES = 1024 * 1024;
const ENTRY_BYTES = 100;

/** Of a state that is empty. */
const STATE_BYTES = 8 * 1024;

function sizeOf(db: Record<string, string>) {
  const list = Object.entries(db);
  const dbBytes = list.reduce(
    (sum, [key, json]) => sum + Buffer.byteLength(key) + Buffer.byteLength(json),
    0,
  );
  return { dbBytes, dbKeys: list.length };
}

/** About the memory of a state. Each key is in both maps and in `committedSets`, which share its texts. */
export function bytesOf(live: LiveState | undefined): number {
  if (!live) return STATE_BYTES;
  const { row, dbBytes, dbKeys, removalBytes, known } = live;
  let bytes = STATE_BYTES + dbBytes + removalBytes + ENTRY_BYTES * (3 * dbKeys + known.size);
  for (const [channel, { unique = '', greatest = '', last = '' }] of Object.entries(row.dedupe))
    bytes += ENTRY_BYTES + channel.length + unique.length + greatest.length + last.length;
  return bytes;
}

/** The live copy of a stored state; a source without one starts empty. */
export function liveState(
  sourceId: string,
  found: { row: EmitterStateRow; version: number } | undefined,
  now: number,
): LiveState {
  const row = found?.row ?? { id: sourceId, epoch: 0, db: {}, dedupe: {}, last_ids: {} };
  return {
    row,
    version: found?.version ?? 0,
    db: { ...row.db },
    ...sizeOf(row.db),
    dbRevision: ++loads * REVISIONS_PER_LOAD,
    committedSets: new Map(),
    removalBytes: 0,
    forgottenRemovals: 0,
    stored: row,
    groups: [],
    isWriting: false,
    known: createKnownRuns(now),
    stale: false,
    busy: { since: 0, until: 0, ticks: { dueAt: 0, props: [] } },
  };
}

function put(db: Record<string, string>, key: string, json: string | undefined): void {
  if (json === undefined) delete db[key];
  // Keys come from user code: `__proto__` is an ordinary key.
  else Object.defineProperty(db, key, { value: json, enumerable: true, configurable: true, writable: true });
}

/** Replaces the map; sets of a hook in progress are not kept. */
export function replaceDb(live: LiveState, db: Record<string, string>): void {
  Object.assign(live, { db: { ...db }, ...sizeOf(db) });
  live.dbRevision = ++loads * REVISIONS_PER_LOAD;
  live.committedSets = new Map(Object.keys(db).map((key) => [key, live.dbRevision]));
  live.removalBytes = 0;
  live.forgottenRemovals = live.dbRevision;
}

/**
 * Changes the map that code sees.
 * @returns an error message if the map would become too large; undefined if the key to remove does not exist
 */
export function setDb(live: LiveState, key: string, json: string | undefined): DbSet | string | undefined {
  const { db } = live;
  const isKnown = Object.hasOwn(db, key);
  if (json === undefined && !isKnown) return undefined;
  const entry = (text: string | undefined) =>
    text === undefined ? 0 : Buffer.byteLength(key) + Buffer.byteLength(text);
  const bytes = live.dbBytes + entry(json) - entry(isKnown ? db[key] : undefined);
  if (bytes > LIMITS.db)
    return `$service.db holds at most ${LIMITS.db / 1024} KB; the key ${key.slice(0, 80)} was not set.`;
  put(db, key, json);
  live.dbBytes = bytes;
  live.dbKeys += Number(json !== undefined) - Number(isKnown);
  live.dbRevision += 1;
  return { key, json, revision: live.dbRevision };
}

/** Repeats a change on a state that was reread. */
export function replaySet(live: LiveState, key: string, json: string | undefined): DbSet[] {
  const set = setDb(live, key, json);
  return typeof set === 'object' ? [set] : [];
}

/**
 * The map that a commit stores: the previous one with the sets of this run. Sets of unfinished runs and hooks are left
 * out, since a crash would keep them and lose their events. A set overtaken by a later one is skipped.
 */
export function commitSets(live: LiveState, sets: readonly DbSet[]): Record<string, string> {
  if (sets.length === 0) return live.row.db;
  const db = { ...live.row.db };
  for (const set of sets) {
    const { key, json, revision } = set;
    if (isOvertaken(live, set)) continue;
    live.committedSets.set(key, revision);
    put(db, key, json);
    if (json === undefined) live.removalBytes += ENTRY_BYTES + Buffer.byteLength(key);
  }
  if (live.removalBytes > MAX_REMOVAL_BYTES) forgetRemovals(live, db);
  return db;
}

/** A key without a known removal: if code does not see it either, it was removed after this set. */
const isOvertaken = (live: LiveState, { key, json, revision }: DbSet): boolean =>
  revision < (live.committedSets.get(key) ?? 0) ||
  (json !== undefined && revision <= live.forgottenRemovals && !Object.hasOwn(live.db, key));

/** @param db the map of the commit */
function forgetRemovals(live: LiveState, db: Record<string, string>): void {
  for (const key of live.committedSets.keys()) if (!Object.hasOwn(db, key)) live.committedSets.delete(key);
  live.removalBytes = 0;
  live.forgottenRemovals = live.dbRevision;
}
