import { LIMITS } from '@wellspring/contract/limits';
import type { Principal } from '@wellspring/contract/principal';
import { eventSortKey } from '@wellspring/core/event-id';
import { isId, msOfId } from '@wellspring/core/ids';
import { canRead } from '@wellspring/http/principal';
import { emittersOfOwner, findEmitter } from '@wellspring/store/collections/emitters';
import { type LogRow, logs } from '@wellspring/store/collections/events';
import type { RunTriggerName } from '@wellspring/store/collections/running-runs';
import type { Store, Where } from '@wellspring/store/port';

/** Log rows per read: a row may have 2 MB. */
const CHUNK_SIZE = 4;
/** Bytes of logs read for one request. */
const MAX_BYTES = 16 * 1024 * 1024;
/** Emitters of an owner that are searched for a run. */
const MAX_EMITTERS = 200;
/** Clocks of two processes differ at most by this. */
const CLOCK_SKEW_MS = 5_000;

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

/** The fields of a record of `$logs` that tell about a run. */
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
  for (const record of (JSON.parse(row.records) as LogRecord[]).reverse()) {
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

/** Bytes that a request may still read. */
interface Budget {
  bytes: number;
}

/** Reads log rows until `take` returns false. */
async function readRows(
  store: Store,
  where: Where<LogRow>,
  order: 'asc' | 'desc',
  budget: Budget,
  take: (row: LogRow) => boolean,
): Promise<void> {
  const rows = store.collection(logs);
  for (let bound: string | undefined; budget.bytes > 0; ) {
    const key = bound === undefined ? {} : { sort_key: order === 'desc' ? { lt: bound } : { gt: bound } };
    const chunk = await rows.list({
      where: { ...where, ...key },
      orderBy: 'sort_key',
      order,
      limit: CHUNK_SIZE,
    });
    for (const row of chunk) {
      budget.bytes -= row.records.length;
      if (!take(row)) return;
    }
    if (chunk.length < CHUNK_SIZE) return;
    bound = chunk.at(-1)!.sort_key;
  }
}

/** The newest runs of an emitter, newest first. */
export async function newestLoggedRuns(
  store: Store,
  emitterId: string,
  limit: number,
  budget: Budget = { bytes: MAX_BYTES },
): Promise<Run[]> {
  const runs = new Map<string, Run>();
  await readRows(store, { emitter_id: emitterId }, 'desc', budget, (row) => {
    addRecords(runs, row);
    return runs.size < limit;
  });
  return [...runs.values()].slice(0, limit);
}

/** Whether the row has records of the run. Ids have no character that JSON escapes. */
const mentions = (row: LogRow, id: string) => row.records.includes(`"execution_id":"${id}"`);

const isEnded = (row: LogRow, id: string) =>
  (JSON.parse(row.records) as LogRecord[]).some(({ k, execution_id }) => k === 'end' && execution_id === id);

/** The run as the rows of one emitter tell, from a sort key on. */
async function runOf(
  store: Store,
  emitterId: string,
  id: string,
  from: string,
  budget: Budget,
): Promise<Run | undefined> {
  const found: LogRow[] = [];
  const where = { emitter_id: emitterId, sort_key: { gte: from } };
  await readRows(store, where, 'asc', budget, (row) => {
    if (!mentions(row, id)) return true;
    found.push(row);
    return !isEnded(row, id);
  });
  const runs = new Map<string, Run>();
  for (const row of found.reverse()) addRecords(runs, row);
  return runs.get(id);
}

/**
 * A run by its id alone: a row names the first of its runs; other runs are searched in the logs of the caller's emitters
 * from the time that the id tells.
 */
export async function findLoggedRun(
  store: Store,
  principal: Principal,
  id: string,
): Promise<Run | undefined> {
  if (!/^run_[0-9A-Za-z-]{1,80}$/.test(id)) return undefined;
  const budget = { bytes: MAX_BYTES };
  const [row] = await store.collection(logs).list({ where: { run_id: id }, order: 'asc', limit: 1 });
  if (row) {
    const emitter = await findEmitter(store, row.emitter_id);
    if (!emitter || !canRead(principal, emitter.owner_id)) return undefined;
    return runOf(store, row.emitter_id, id, row.sort_key, budget);
  }
  if (principal.kind !== 'user') return undefined;
  for (const owner_id of [principal.user_id, ...principal.org_ids]) {
    for (const emitter of (await emittersOfOwner(store, owner_id)).slice(-MAX_EMITTERS)) {
      const run = await searchRun(store, emitter.id, id, budget);
      if (budget.bytes <= 0) return run;
      if (run) return run;
    }
  }
  return undefined;
}

/** Ids of runs of events are hashes: only the newest runs are searched for them. */
async function searchRun(
  store: Store,
  emitterId: string,
  id: string,
  budget: Budget,
): Promise<Run | undefined> {
  if (!isId('run', id)) {
    const newest = await newestLoggedRuns(store, emitterId, LIMITS.retrievable, budget);
    return newest.find((run) => run.id === id);
  }
  const from = eventSortKey({ ms: Math.max(0, msOfId(id) - CLOCK_SKEW_MS), n: 0 });
  return runOf(store, emitterId, id, from, budget);
}
