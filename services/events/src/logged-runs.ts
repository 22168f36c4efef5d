import type { Principal } from '@wellspring/contract/principal';
import { canAccess } from '@wellspring/http/principal';
import { findEmitter } from '@wellspring/store/collections/emitters';
import { type LogRow, logs, recordsOf } from '@wellspring/store/collections/events';
import type { RunTriggerName } from '@wellspring/store/collections/running-runs';
import type { Store, Where } from '@wellspring/store/port';

/** Log rows per read: a row may have 2 MB. */
const CHUNK_SIZE = 4;
/** Bytes of logs read for one request. */
const MAX_BYTES = 16 * 1024 * 1024;

/** A run as the API shows it. */
export interface Run {
  id: string;
  emitter_id: string;
  state: 'running' | 'ok' | 'failed' | 'cancelled';
  trigger: RunTriggerName;
  /** Epoch seconds. */
  started_at: number;
  duration_ms: number | null;
  compute_ms: number | null;
  emitted: number | null;
  deduped: number | null;
  error: { code: string; msg: string; stack: string } | null;
}

/** The fields of a `$logs` record that describe a run. */
interface LogRecord {
  ts: number;
  k: string;
  execution_id: string;
  trigger?: Run['trigger'];
  state?: Exclude<Run['state'], 'running'>;
  duration_ms?: number;
  compute_ms?: number;
  emitted?: number;
  deduped?: number;
  err?: { name: string; message: string; stack: string };
}

/** Adds the records of a row, which are older than those before. Runs that executed nothing have no state, and are left out. */
function addRecords(runs: Map<string, Run>, row: LogRow): void {
  for (const record of recordsOf<LogRecord>(row).reverse()) {
    const id = record.execution_id;
    if (record.k === 'end' && record.state) {
      runs.set(id, {
        id,
        emitter_id: row.emitter_id,
        state: record.state,
        trigger: 'manual',
        started_at: Math.floor((record.ts - (record.duration_ms ?? 0)) / 1000),
        duration_ms: record.duration_ms ?? null,
        compute_ms: record.compute_ms ?? null,
        emitted: record.emitted ?? null,
        deduped: record.deduped ?? null,
        error: null,
      });
    } else if (record.k === 'error' && record.err) {
      const { name, message, stack } = record.err;
      const run = runs.get(id);
      if (run) run.error = { code: name, msg: message, stack };
    } else if (record.k === 'start' && record.trigger) {
      const known = runs.get(id);
      const started = { trigger: record.trigger, started_at: Math.floor(record.ts / 1000) };
      if (known) Object.assign(known, started);
      else runs.set(id, { ...UNFINISHED, id, emitter_id: row.emitter_id, ...started });
    }
  }
}

const UNFINISHED = {
  state: 'running',
  duration_ms: null,
  compute_ms: null,
  emitted: null,
  deduped: null,
  error: null,
} as const;

/**
 * Reads log rows, newest first, until `take` returns false.
 * @param by order of the rows; both give the same order for one emitter
 */
async function readRows(
  store: Store,
  where: Where<LogRow>,
  by: 'id' | 'sort_key',
  take: (row: LogRow) => boolean,
): Promise<void> {
  const rows = store.collection(logs);
  let bytes = 0;
  for (let bound: string | undefined; bytes < MAX_BYTES; ) {
    const chunk = await rows.list({
      where: { ...where, ...(bound !== undefined && { [by]: { lt: bound } }) },
      orderBy: by,
      limit: CHUNK_SIZE,
    });
    for (const row of chunk) {
      bytes += row.records.length;
      if (!take(row)) return;
    }
    if (chunk.length < CHUNK_SIZE) return;
    bound = chunk.at(-1)![by];
  }
}

/** The newest runs of an emitter, newest first. */
export async function newestLoggedRuns(store: Store, emitterId: string, limit: number): Promise<Run[]> {
  const runs = new Map<string, Run>();
  await readRows(store, { emitter_id: emitterId }, 'sort_key', (row) => {
    addRecords(runs, row);
    return runs.size < limit;
  });
  return [...runs.values()].slice(0, limit);
}

/** A run by its id alone. */
export async function findLoggedRun(
  store: Store,
  principal: Principal,
  id: string,
): Promise<Run | undefined> {
  const emitterId = await readableEmitter(store, principal, id);
  if (emitterId === undefined) return undefined;
  const runs = new Map<string, Run>();
  await readRows(store, { run_id: id }, 'id', (row) => {
    if (row.emitter_id === emitterId) addRecords(runs, row);
    return true;
  });
  return runs.get(id);
}

/** The emitter of a run that the principal may read. Runs of several emitters may have the same id. */
async function readableEmitter(
  store: Store,
  principal: Principal,
  runId: string,
): Promise<string | undefined> {
  const rows = store.collection(logs);
  for (let bound: string | undefined; ; ) {
    const [row] = await rows.list({
      where: { run_id: runId, ...(bound !== undefined && { id: { lt: bound } }) },
      orderBy: 'id',
      limit: 1,
      texts: false,
    });
    if (!row) return undefined;
    const emitter = await findEmitter(store, row.emitter_id);
    if (emitter && canAccess(principal, emitter.owner_id)) return row.emitter_id;
    // Below all ids of this emitter.
    bound = `${row.emitter_id}/`;
  }
}
