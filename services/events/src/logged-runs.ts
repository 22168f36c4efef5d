import type { Principal } from '@wellspring/contract/principal';
import { canAccess } from '@wellspring/http/principal';
import { findEmitter } from '@wellspring/store/collections/emitters';
import { type LogRow, logs, recordsOf } from '@wellspring/store/collections/events';
import type { RunTriggerName } from '@wellspring/store/collections/running-runs';
import type { Store, Where } from '@wellspring/store/port';

/** Log rows per read: a row can be up to 2 MB. */
const CHUNK_SIZE = 4;
/** Bytes of logs read for one request. */
const MAX_BYTES = 16 * 1024 * 1024;
/** Rows in which the starts of the runs of a list are looked for; a start may have been deleted, or not stored. */
const MAX_FURTHER_ROWS = 200;

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

const UNFINISHED = {
  state: 'running',
  duration_ms: null,
  compute_ms: null,
  emitted: null,
  deduped: null,
  error: null,
} as const;

interface LoggedRuns {
  /** By id, newest first. */
  runs: Map<string, Run>;
  /** Ids of runs whose older records are ignored: the start was read, or nothing was executed. */
  complete: Set<string>;
  /** Ids of the others. */
  incomplete: Set<string>;
  /** Older runs than these are ignored. */
  limit: number;
}

const noRuns = (limit: number): LoggedRuns => ({
  ...{ runs: new Map(), complete: new Set(), incomplete: new Set() },
  limit,
});

/** Adds the records of the next older row. An `end` without a state is that of a job that executed nothing: no run. */
function addRecords({ runs, complete, incomplete, limit }: LoggedRuns, row: LogRow): void {
  const finish = (id: string) => {
    complete.add(id);
    incomplete.delete(id);
  };
  for (const record of recordsOf<LogRecord>(row).reverse()) {
    const id = record.execution_id;
    if (complete.has(id)) continue;
    const run = runs.get(id);
    if (!run && runs.size >= limit) continue;
    if (record.k === 'end' && !record.state) finish(id);
    else if (record.k === 'end' && record.state && !run) {
      incomplete.add(id);
      runs.set(id, {
        id,
        emitter_id: row.emitter_id,
        state: record.state,
        // Replaced when the start is read.
        trigger: 'manual',
        started_at: Math.floor((record.ts - (record.duration_ms ?? 0)) / 1000),
        duration_ms: record.duration_ms ?? null,
        compute_ms: record.compute_ms ?? null,
        emitted: record.emitted ?? null,
        deduped: record.deduped ?? null,
        error: null,
      });
    } else if (record.k === 'error' && record.err && run) {
      const { name, message, stack } = record.err;
      run.error = { code: name, msg: message, stack };
    } else if (record.k === 'start' && record.trigger) {
      finish(id);
      const started = { trigger: record.trigger, started_at: Math.floor(record.ts / 1000) };
      if (run) Object.assign(run, started);
      else runs.set(id, { ...UNFINISHED, id, emitter_id: row.emitter_id, ...started });
    }
  }
}

/** Which log rows to read. */
interface Selection {
  where: Where<LogRow>;
  /** For one emitter both fields give the same order. */
  orderBy: 'id' | 'sort_key';
  /** Of the field `orderBy`. */
  range?: { gt: string; lt: string };
}

/** Reads log rows, newest first, until `onRow` returns false. */
async function readRows(
  store: Store,
  { where, orderBy, range }: Selection,
  onRow: (row: LogRow) => boolean,
): Promise<void> {
  const rows = store.collection(logs);
  let rest: { gt?: string; lt: string } | undefined = range;
  let bytes = 0;
  while (bytes < MAX_BYTES) {
    const chunk = await rows.list({
      where: { ...where, ...(rest && { [orderBy]: rest }) },
      orderBy,
      order: 'desc',
      limit: CHUNK_SIZE,
    });
    for (const row of chunk) {
      bytes += row.records.length;
      if (!onRow(row)) return;
    }
    if (chunk.length < CHUNK_SIZE) return;
    rest = { ...range, lt: chunk.at(-1)![orderBy] };
  }
}

/** The newest runs of an emitter, newest first. */
export async function newestLoggedRuns(store: Store, emitterId: string, limit: number): Promise<Run[]> {
  const logged = noRuns(limit);
  let furtherRows = 0;
  const isDone = () =>
    logged.runs.size >= limit && (logged.incomplete.size === 0 || ++furtherRows > MAX_FURTHER_ROWS);
  await readRows(store, { where: { emitter_id: emitterId }, orderBy: 'sort_key' }, (row) => {
    addRecords(logged, row);
    return !isDone();
  });
  return [...logged.runs.values()];
}

/** The run with this id, of the first emitter that the principal may read. */
export async function findLoggedRun(
  store: Store,
  principal: Principal,
  id: string,
): Promise<Run | undefined> {
  const emitterId = await readableEmitter(store, principal, id);
  if (emitterId === undefined) return undefined;
  const logged = noRuns(Number.POSITIVE_INFINITY);
  // Ids are `<emitter_id>/…`, and `0` is the next character after `/`.
  const range = { gt: `${emitterId}/`, lt: `${emitterId}0` };
  await readRows(store, { where: { run_id: id }, orderBy: 'id', range }, (row) => {
    addRecords(logged, row);
    return true;
  });
  return logged.runs.get(id);
}

/** The first emitter with a run of this id that the principal may read. Runs of several emitters may have the same id. */
async function readableEmitter(
  store: Store,
  principal: Principal,
  runId: string,
): Promise<string | undefined> {
  const rows = store.collection(logs);
  let before: string | undefined;
  for (;;) {
    const [row] = await rows.list({
      where: { run_id: runId, ...(before !== undefined && { id: { lt: before } }) },
      orderBy: 'id',
      limit: 1,
      texts: false,
    });
    if (!row) return undefined;
    const emitter = await findEmitter(store, row.emitter_id);
    if (emitter && canAccess(principal, emitter.owner_id)) return row.emitter_id;
    // Ids are `<emitter_id>/…`: continue below those of this emitter.
    before = `${row.emitter_id}/`;
  }
}
