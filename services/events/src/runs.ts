import { CALLS, type CancelCall } from '@wellspring/contract/calls';
import { cancelRun, getRun, listSourceRuns, listWorkflowRuns } from '@wellspring/contract/endpoints/runs';
import { LIMITS } from '@wellspring/contract/limits';
import type { Principal } from '@wellspring/contract/principal';
import { decodeCursor } from '@wellspring/core/cursor';
import { conflict, invalidParameter, notFound } from '@wellspring/core/problem';
import { type Page, type Route, route } from '@wellspring/http/bind';
import { DEFAULT_LIMIT, type PageInput } from '@wellspring/http/paging';
import { canAccess } from '@wellspring/http/principal';
import type { Deps } from '@wellspring/runtime/deps';
import { findEmitter } from '@wellspring/store/collections/emitters';
import type { RunTriggerName } from '@wellspring/store/collections/running-runs';
import { runningRuns } from '@wellspring/store/collections/running-runs';
import { assertReadableSource, assertReadableWorkflow } from './access.ts';
import { findLoggedRun, newestLoggedRuns, type Run } from './logged-runs.ts';

const CANCEL_DEADLINE_MS = 10_000;

interface StateInput {
  state?: string | undefined;
}

/** Lists of runs, single runs, and their cancellation. */
export function runRoutes({ store, call }: Pick<Deps, 'store' | 'call'>): Route[] {
  const running = store.collection(runningRuns);

  /** Newest first. The log tells more than the row of a long run, which may outlive it. */
  async function newestRuns(emitterId: string): Promise<Run[]> {
    const logged = await newestLoggedRuns(store, emitterId, LIMITS.retrievable);
    const ids = new Set(logged.map(({ id }) => id));
    const rows = await running.list({ where: { emitter_id: emitterId }, limit: LIMITS.retrievable });
    const others = rows.filter(({ id }) => !ids.has(id)).map(unfinished);
    return [...others, ...logged].slice(0, LIMITS.retrievable);
  }

  async function list(emitterId: string, input: PageInput & StateInput): Promise<Page<Run>> {
    return pageOf(await newestRuns(emitterId), input);
  }

  async function find(principal: Principal, id: string): Promise<Run> {
    const logged = await findLoggedRun(store, principal, id);
    if (logged && logged.state !== 'running') return logged;
    const row = await running.get(id);
    const emitter = row && (await findEmitter(store, row.emitter_id));
    if (row && emitter && canAccess(principal, emitter.owner_id)) return unfinished(row);
    if (!logged) throw notFound('run', id);
    return logged;
  }

  return [
    route(listSourceRuns, async ({ principal, params, input }) => {
      await assertReadableSource(store, principal, params.id);
      return list(params.id, input);
    }),
    route(listWorkflowRuns, async ({ principal, params, input }) => {
      await assertReadableWorkflow(store, principal, params.id);
      return list(params.id, input);
    }),
    route(getRun, ({ principal, params }) => find(principal, params.id)),
    route(cancelRun, async ({ principal, params }) => {
      const run = await find(principal, params.id);
      const message: CancelCall['message'] = { source_id: run.emitter_id, run_id: run.id };
      const options = { key: run.emitter_id, deadlineMs: CANCEL_DEADLINE_MS };
      const { found } = (await call.request(CALLS.cancel, message, options)) as CancelCall['answer'];
      if (!found) throw conflict('run_ended', 'The run has ended.');
    }),
  ];
}

const unfinished = (row: {
  id: string;
  emitter_id: string;
  trigger: RunTriggerName;
  started_at_ms: number;
}): Run => ({
  id: row.id,
  emitter_id: row.emitter_id,
  state: 'running',
  trigger: row.trigger,
  started_at: Math.floor(row.started_at_ms / 1000),
  duration_ms: null,
  compute_ms: null,
  emitted: null,
  deduped: null,
  error: null,
});

/**
 * A page of the runs with a state. A cursor is found in any state of its run; the run of an unknown one is too old.
 * @param runs newest first
 * @throws Problem 400 for a malformed cursor, and for both
 */
function pageOf(
  runs: Run[],
  { limit = DEFAULT_LIMIT, after, before, state }: PageInput & StateInput,
): Page<Run> {
  if (after !== undefined && before !== undefined) {
    throw invalidParameter('before', 'Only one of after and before can be given.');
  }
  const isWanted = (run: Run) => state === undefined || run.state === state;
  const indexOf = (param: 'after' | 'before', cursor: string): number => {
    const id = decodeCursor(cursor, param);
    const index = runs.findIndex((run) => run.id === id);
    return index < 0 ? runs.length : index;
  };
  const size = Math.min(limit, LIMITS.retrievable);
  const from = after === undefined ? 0 : indexOf('after', after) + 1;
  const to = before === undefined ? runs.length : indexOf('before', before);
  const found = runs.slice(from, to).filter(isWanted);
  return {
    data: before === undefined ? found.slice(0, size) : found.slice(-size),
    total_count: runs.filter(isWanted).length,
  };
}
