import type { ThrownError } from '@wellspring/component/child/program-types';
import type { HookName } from '@wellspring/contract/definition';
import { ownHostOf } from '@wellspring/contract/endpoint-url';
import type { HttpReply, RecordJob, RunJob } from '@wellspring/contract/messages';
import { newId } from '@wellspring/core/ids';
import { Unavailable } from '@wellspring/core/unavailable';
import type { Deps } from '@wellspring/runtime/deps';
import type { Executor, Result, Task } from '@wellspring/sandbox/port';
import { type EmitterStateRow, states } from '@wellspring/store/collections/states';
import type { Deployed } from './catalog.ts';
import { type Outcome, prepareCommit } from './commit.ts';
import { type CommitGroup, createCommitGroup, type Part } from './commit-group.ts';
import { prepareRecord } from './commit-record.ts';
import { isCommitted } from './committed.ts';
import type { Announcer } from './emitted.ts';
import { executeRun } from './execute-run.ts';
import { isOvertaken, runTrigger } from './job-trigger.ts';
import { commitSets, type DbSet, type Live, liveState, setDb } from './live-state.ts';
import type { OwnerCosts } from './owner-costs.ts';
import type { OwnerNetworks } from './owner-networks.ts';
import { type RunContext, SOURCE_TYPES, type SourceType, skippedTick, triggerEvent } from './records.ts';
import type { UsageMeter } from './usage.ts';

/** What the lanes of a runner share. */
export interface LaneDeps extends Pick<Deps, 'store' | 'call' | 'clock' | 'log' | 'config'> {
  executor: Executor;
  announcer: Announcer;
  meter: UsageMeter;
  costs: Pick<OwnerCosts, 'charge'>;
  networks: Pick<OwnerNetworks, 'of'>;
  /** Called for each run: result and seconds. */
  observe(result: string, seconds: number): void;
}

/**
 * The live state of one source: its `$service.db`, what dedupe knows, its newest ids. One lane exists per source in
 * the whole platform; the version of the stored state is the fence should there ever be two.
 */
export interface Lane {
  /** Begins a batch of jobs. */
  open(): Promise<Batch>;
  /** Runs a hook in a process of its own and commits what it did; gives what it threw. */
  hook(hook: HookName, deployed: Deployed, logsWanted: boolean): Promise<ThrownError | undefined>;
  /** The source was deleted: nothing is committed any more. */
  forget(): void;
  /** Something runs or is being committed. */
  readonly busy: boolean;
}

/**
 * Jobs that were handed out together. Runs are executed one after the other; while the commit of one is being made
 * durable, the next may execute. Commits take effect in their order, and after a failure nothing of the batch is
 * begun any more: what was committed is a beginning of the batch, and the rest is handed out again.
 */
export interface Batch {
  /** `done` resolves when the run is committed and announced; `executed` tells when the next one may start. */
  run(job: RunJob, deployed: Deployed, options: RunOptions): { executed: Promise<void>; done: Promise<void> };
  record(job: RecordJob, deployed: Deployed): Promise<void>;
  /** @throws Fenced when something before has failed, and nothing may be begun */
  assertIntact(): void;
}

export interface RunOptions {
  /** Names the process among those of a source with concurrency. */
  slot: string;
  /** Somebody listens to `$logs`. */
  logsWanted: boolean;
  /** It was committed so long ago that the state does not tell. */
  isRepeated: boolean;
}

/**
 * Nothing can be committed on the state at hand: another runner has the source, or a write failed. No fault of the run,
 * which is to be handed out again as often as it takes.
 */
export class Fenced extends Unavailable {
  override readonly name = 'Fenced';
}

/** A hook is not handed out again, so its commit is tried again when a run beside it failed to commit. */
const HOOK_COMMITS = 3;

interface CommitOptions {
  deployed: Deployed;
  slot: string;
  hop: number;
  traceId: string;
  /** The run was started by a record of `$errors` or `$logs`. */
  handlesRecords: boolean;
  logsWanted: boolean;
  event: () => unknown;
  durationMs: number;
}

const bytesOf = ({ emits, logs }: Outcome): number =>
  emits.reduce((sum, { payload }) => sum + payload.length, 0) +
  logs.reduce((sum, { msg = '' }) => sum + msg.length, 0);

/** What a run or a hook left to the platform. */
const costOf = (outcome: Outcome, result: Result) => ({
  events: outcome.emits.length,
  bytes: bytesOf(outcome),
  result,
});

export function createLane(sourceId: string, deps: LaneDeps): Lane {
  const { store, executor, clock, call, announcer, meter, costs, networks, log } = deps;
  const stateRows = store.collection(states);
  let loading: Promise<Live> | undefined;
  let active = 0;
  let forgotten = false;

  /** The live state; read from the store once, and again after a commit failed. */
  async function load(): Promise<Live> {
    loading ??= stateRows.getVersioned(sourceId).then((found) => liveState(sourceId, found));
    const current = loading;
    const reread = () => {
      if (loading === current) loading = undefined;
      return load();
    };
    try {
      const live = await current;
      return live.stale ? await reread() : live;
    } catch (error) {
      if (loading === current) loading = undefined;
      throw error;
    }
  }

  async function working<T>(work: () => Promise<T>): Promise<T> {
    active += 1;
    try {
      return await work();
    } finally {
      active -= 1;
    }
  }

  /** Writes the group of a turn. Whatever follows builds on a state that is ahead of the stored one. */
  function flush(live: Live): void {
    const { group } = live;
    if (!group) return;
    live.group = undefined;
    const ifVersion = live.version;
    live.version += 1;
    const { commit: rows, outbox } = group.close(live.row, ifVersion, clock.now());
    const written = (async () => {
      let done = false;
      try {
        if (!forgotten && !live.stale) done = await store.commitRun(rows);
      } finally {
        if (!done) live.stale = true;
      }
      if (!done) throw new Fenced(`the state of ${sourceId} is not this runner's any more`);
      announcer.wake(sourceId);
    })();
    group.settle(
      written,
      written.then(() => outbox && announcer.announce(outbox)),
    );
  }

  /**
   * Adds what was built from the live state, in the same turn in which it was built, to the commit of this turn.
   * @throws Fenced
   */
  function join(live: Live, ownerId: string, state: EmitterStateRow, part: Part): CommitGroup {
    if (forgotten) throw new Fenced(`${sourceId} was deleted`);
    if (live.stale) throw new Fenced(`an earlier commit of ${sourceId} failed`);
    if (live.group && !live.group.takes(part)) flush(live);
    if (!live.group) {
      live.group = createCommitGroup(sourceId, ownerId);
      setImmediate(() => flush(live));
    }
    live.group.add(part);
    live.row = state;
    return live.group;
  }

  /** Begins the commit of a run; undefined: it is committed already, a job came twice. */
  function commit(
    live: Live,
    run: RunContext,
    outcome: Outcome,
    sets: readonly DbSet[],
    { deployed, slot, hop, traceId, handlesRecords, logsWanted, event, durationMs }: CommitOptions,
  ): CommitGroup | undefined {
    const { run_id } = run;
    if (isCommitted(live.row.committed, run_id, slot)) return undefined;
    const { state, events, logs, emitted } = prepareCommit({
      state: live.row,
      run,
      outcome,
      strategy: deployed.deployment.definition.dedupe,
      slot,
      hop,
      triggerEvent: event,
      handlesRecords,
      logsWanted,
      durationMs,
      now: clock.now(),
    });
    const part = { run_id, trace_id: traceId, hop, events, logs, emitted };
    return join(live, deployed.source.owner_id, { ...state, db: commitSets(live, sets) }, part);
  }

  /** As commit; resolves when it is announced, too. */
  const commitRun = async (...args: Parameters<typeof commit>): Promise<void> => commit(...args)?.announced;

  const taskOf = (
    { deployment }: Deployed,
    owner: NonNullable<Task['owner']>,
    live: Live,
    lane: string,
    what: Task['call'],
  ): Task => ({
    process: `${sourceId}/${deployment.id}/${lane}`,
    bundle: deployment.bundle,
    bundleId: deployment.bundleId,
    owner,
    instance: { ...deployment.instance, db: live.db, dbRevision: live.dbRevision },
    call: what,
  });

  const contextOf = (
    run_id: string,
    { source, deployment }: Deployed,
    source_type: SourceType,
    accepted_at: number,
  ): RunContext => ({
    run_id,
    source_id: sourceId,
    owner_id: source.owner_id,
    deployment_id: deployment.id,
    source_type,
    accepted_at,
  });

  /**
   * A run that was handed out again although it was committed: its announcement may be missing. (One that was
   * committed behind another is announced with that one, or by the sweep.)
   */
  const announceAgain = async (runId: string) => {
    const left = await announcer.pending(runId);
    if (left) await announcer.announceAgain(left);
  };

  /** Executes a run and begins its commit, once the run before it is executed, too. */
  async function start(
    live: Live,
    job: RunJob,
    deployed: Deployed,
    { slot, logsWanted, isRepeated }: RunOptions,
    before: Promise<unknown>,
  ): Promise<{ committed: Promise<unknown> }> {
    const { trigger, run_id, reply_to } = job;
    if (isRepeated || isCommitted(live.row.committed, run_id, slot)) {
      return { committed: announceAgain(run_id) };
    }
    let waiting = reply_to !== undefined;
    const respond = (reply: HttpReply) => {
      if (waiting) call.reply(reply_to!, reply);
      waiting = false;
    };
    const run = contextOf(run_id, deployed, SOURCE_TYPES[trigger.kind], job.accepted_at);
    const options: CommitOptions = {
      deployed,
      slot,
      hop: job.hop,
      traceId: job.trace_id,
      handlesRecords: trigger.kind === 'event' && /^\$(errors|logs)$/.test(trigger.event_name),
      logsWanted,
      event: () => triggerEvent(trigger),
      durationMs: 0,
    };
    if (isOvertaken(job, deployed, live, clock.now())) {
      const outcome = { emits: [], errors: [], logs: [skippedTick(run, trigger, clock.now())] };
      await before;
      return { committed: commitRun(live, run, outcome, [], options) };
    }
    const emitTrigger = !deployed.deployment.definition.has_run;
    const owner = await networks.of(deployed.source.owner_id);
    const task = taskOf(deployed, owner, live, `run${slot}`, {
      kind: 'run',
      trigger: runTrigger(job),
      emitTrigger,
    });
    const { mask } = deployed.deployment;
    const ownHost =
      trigger.kind === 'http' ? ownHostOf(deps.config, trigger.request.headers.host)?.host : undefined;
    const { outcome, result, sets } = await executeRun(deps, { task, live, run, mask, ownHost }, respond);
    live.runEndedAt = clock.now();
    if (trigger.kind === 'timer') live.tickEndedAt = live.runEndedAt;
    respond({ kind: result.ok && outcome.errors.length === 0 ? 'none' : 'failed' });
    meter.countRun(deployed.source.owner_id, result.cpuMs);
    costs.charge(deployed.source.owner_id, costOf(outcome, result));
    deps.observe(result.ok ? 'ok' : result.reason, result.durationMs / 1000);
    const { durationMs, ok } = result;
    log.debug(
      { run_id, source_id: sourceId, trace_id: job.trace_id, ok, duration_ms: durationMs },
      'run.finished',
    );
    await before;
    return { committed: commitRun(live, run, outcome, sets, { ...options, durationMs }) };
  }

  return {
    forget() {
      forgotten = true;
    },

    get busy() {
      return active > 0;
    },

    async open() {
      const live = await load();
      let broken = false;
      let last: Promise<unknown> = Promise.resolve();
      const fail = () => {
        broken = true;
      };
      /** A job may have come twice: what the first one does is all there is to do. */
      const begun = new Map<string, { executed: Promise<void>; done: Promise<void> }>();
      return {
        assertIntact() {
          if (broken || live.stale) throw new Fenced(`an earlier job of ${sourceId} failed`);
        },
        run(job, deployed, options) {
          const same = begun.get(job.run_id);
          if (same) return same;
          const started = start(live, job, deployed, options, last);
          last = started;
          const done = working(async () => {
            await (await started).committed;
          });
          // Whoever waits for `done` sees the failure; until then it must not count as unhandled.
          done.catch(fail);
          const one = { executed: started.then(() => {}, fail), done };
          begun.set(job.run_id, one);
          return one;
        },
        record(job, deployed) {
          const done = working(async () => {
            if (isCommitted(live.row.committed, job.run_id)) return announceAgain(job.run_id);
            const now = clock.now();
            const run = contextOf(job.run_id, deployed, 'EMIT', now);
            const { state, part } = prepareRecord(live.row, run, job, now);
            await join(live, deployed.source.owner_id, state, part).announced;
          });
          done.catch(fail);
          return done;
        },
      };
    },

    hook: (hook, deployed, logsWanted) =>
      working(async () => {
        const live = await load();
        const run: RunContext = { ...contextOf(newId('run'), deployed, 'HOOK', clock.now()), hook };
        const owner = await networks.of(deployed.source.owner_id);
        const task = taskOf(deployed, owner, live, 'hook', { kind: 'hook', hook });
        const { mask } = deployed.deployment;
        const { outcome, result, sets } = await executeRun(deps, { task, live, run, mask }, () => {});
        meter.countTime(deployed.source.owner_id, result.cpuMs);
        costs.charge(deployed.source.owner_id, costOf(outcome, result));
        // Hooks are rare: their process is not worth keeping.
        executor.retire(task.process!);
        for (let attempt = 1; ; attempt++) {
          const current = await load();
          // What was set in a state that is not the current one any more, is set again.
          const own = current === live ? sets : sets.flatMap(({ key, json }) => setAgain(current, key, json));
          try {
            // Should its announcement fail, the sweep makes up for it.
            await commit(current, run, outcome, own, {
              deployed,
              slot: '',
              hop: 0,
              traceId: run.run_id,
              handlesRecords: false,
              logsWanted,
              event: () => null,
              durationMs: result.durationMs,
            })?.written;
            return result.ok ? undefined : result.error;
          } catch (error) {
            if (!(error instanceof Fenced) || forgotten || attempt === HOOK_COMMITS) throw error;
          }
        }
      }),
  };
}

function setAgain(live: Live, key: string, json: string | undefined): DbSet[] {
  const set = setDb(live, key, json);
  return typeof set === 'string' ? [] : [set];
}
