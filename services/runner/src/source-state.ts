import type { ThrownError } from '@wellspring/component/program/program-types';
import type { HookName } from '@wellspring/contract/definition';
import type { DbJob, DueJob, HttpReply, RecordJob, RunJob, RunsMessage } from '@wellspring/contract/messages';
import { newRunId } from '@wellspring/core/ids';
import { notFound } from '@wellspring/core/problem';
import type { Deps } from '@wellspring/runtime/deps';
import type { Quotas } from '@wellspring/runtime/quotas';
import type { Executor } from '@wellspring/sandbox/port';
import type { ActiveRuns } from './active-runs.ts';
import type { Catalog, Deployed, DeployedSource } from './catalog.ts';
import { arrange, channelsOf } from './commit.ts';
import type { CommitGate } from './commit-gate.ts';
import { executeJob, passedReply } from './execute-job.ts';
import { executeRun } from './execute-run.ts';
import { handlesRecords, isOvertaken, noteRun } from './job-trigger.ts';
import { findCommitted, isCommitted } from './known-runs.ts';
import { type LiveState, replaySet } from './live-state.ts';
import { logCommits } from './log-commits.ts';
import { createLogRun } from './log-run.ts';
import type { OutboxRelay } from './outbox-relay.ts';
import { costOf } from './owner-costs.ts';
import type { OwnerNetworks } from './owner-networks.ts';
import { createPlatformJobs } from './platform-jobs.ts';
import { type LogRecord, type RunContext, SOURCE_TYPES, skippedRun, triggerEvent } from './records.ts';
import type { OpenRunRoom, RunRoom } from './run-room.ts';
import { contextOf, contextOfJob, taskOf } from './run-task.ts';
import { type CommitOptions, createStateCommits, Fenced, strategyOf } from './state-commits.ts';
import type { UsageMeter } from './usage.ts';

/** Shared by the source states of a runner. */
export interface SourceStateDeps
  extends Pick<Deps, 'store' | 'call' | 'clock' | 'log' | 'config' | 'memory'> {
  executor: Executor;
  active: ActiveRuns;
  relay: OutboxRelay;
  gate: CommitGate;
  meter: UsageMeter;
  openRoom: OpenRunRoom;
  networks: Pick<OwnerNetworks, 'of'>;
  quotas: Pick<Quotas, 'exceeded' | 'record'>;
  listenersOfRun: Catalog['listenersOfRun'];
  /** Called for each run: result and seconds. */
  observe(result: string, seconds: number): void;
}

/**
 * The live state of one source or workflow: its `$service.db`, its dedupe caches, its newest ids. One runner at a time holds it;
 * the version of the stored state fences off a second one.
 */
export interface SourceState {
  /**
   * Starts a batch of jobs.
   * @param epoch of their lease
   * @param assertHeld throws when another process may have the jobs; called before each run
   * @throws LeaseLost
   */
  open(epoch: number, messages: readonly RunsMessage[], assertHeld: () => void): Promise<Batch>;
  /**
   * Runs a hook in a separate process and commits its effects; returns the error it threw.
   * @param until aborted when its caller gives up: it is not begun any more.
   * @throws the reason of the signal; Problem 404: the source was deleted meanwhile
   */
  hook(hook: HookName, deployed: DeployedSource, until: AbortSignal): Promise<ThrownError | undefined>;
  /** The source was deleted: rejects further commits. Resolves when none is in progress. */
  forget(): Promise<void>;
  /** About its memory. */
  bytes(): number;
}

/**
 * Jobs delivered together. Runs execute one after the other; the next one may execute while a commit is being made
 * durable. Commits take effect in order. After a failure no job of the batch starts: the committed jobs are a prefix of
 * the batch, and the queue redelivers the rest.
 */
export interface Batch {
  /**
   * `executed` resolves when the next run may start, `done` when this one is committed and published.
   * @param shard selects one of the processes of a source with concurrency
   */
  run(job: RunJob, deployed: Deployed, shard: string): { executed: Promise<void>; done: Promise<void> };
  record(job: RecordJob, deployed: Deployed): Promise<void>;
  due(job: DueJob, deployed: Deployed): Promise<void>;
  replaceDb(job: DbJob, deployed: Deployed): Promise<void>;
  /** @throws Fenced after an earlier failure: no further job may start */
  assertIntact(): void;
}

/** Hooks are not redelivered; their commit is retried when a concurrent run fails to commit. */
const MAX_HOOK_COMMITS = 3;

export function createSourceState(sourceId: string, deps: SourceStateDeps): SourceState {
  const { store, executor, clock, call, active, meter, openRoom, networks, quotas, gate } = deps;
  const commits = createStateCommits(sourceId, deps);
  const { load, join, commit, republish, isBehind, forget, isForgotten } = commits;
  const logRun = createLogRun(deps.log, clock);

  const jobs = createPlatformJobs({ ...deps, join });
  const commitsLogs = (ofRun: Parameters<typeof logCommits>[1]) =>
    logCommits({ join, isForgotten, now: clock.now }, ofRun);

  /** Why a run that nobody waits for is skipped: a sentence; undefined for runs that are executed. */
  async function skipReason(job: RunJob, deployed: Deployed, live: LiveState): Promise<string | undefined> {
    const { kind } = job.trigger;
    if (!deployed.emitter.active) return 'The source is inactive.';
    if (isOvertaken(job, live, clock.now())) return 'The previous run had not ended.';
    // Calls and manual runs were checked when they were accepted, and a workflow answers an accepted call.
    if (kind === 'http' || kind === 'manual' || job.reply_to !== undefined) return undefined;
    const reason = await quotas.exceeded(deployed.emitter.owner_id);
    if (reason !== undefined) await quotas.record(sourceId, SOURCE_TYPES[kind], reason);
    return reason;
  }

  /** Executes a run; starts its commit once the previous run has executed. */
  async function start(
    live: LiveState,
    job: RunJob,
    deployed: Deployed,
    shard: string,
    before: Promise<unknown>,
    room: RunRoom,
    assertHeld: () => void,
  ): Promise<{ committed: Promise<unknown> }> {
    const { trigger, run_id, reply_to } = job;
    let waiting = reply_to !== undefined;
    let replyBytes = 0;
    const respond = (reply: HttpReply) => {
      if (waiting) call.reply(reply_to!, reply);
      waiting = false;
      if (reply.kind === 'response') replyBytes = reply.body.length;
    };
    const run = contextOfJob(job, deployed);
    const options: CommitOptions = {
      deployed,
      hop: job.hop,
      traceId: job.trace_id,
      handlesRecords: handlesRecords(job),
      revision: deployed.revision,
      triggerEvent: () => triggerEvent(trigger),
      end: { durationMs: 0, cpuMs: 0 },
    };
    const skipped = await skipReason(job, deployed, live);
    if (skipped !== undefined) {
      const logs = [skippedRun(run, trigger, skipped, clock.now())];
      const outcome = { emits: [], keys: [], errors: [], logs };
      await before;
      return { committed: commit(live, run, outcome, [], options).published };
    }
    const owner = await networks.of(deployed.emitter.owner_id);
    const commitLogs = commitsLogs({ live, run, options, room });
    assertHeld();
    // Its process would be started after those of the source were ended.
    if (isForgotten()) throw new Fenced(`The source ${sourceId} was deleted`);
    const startedAt = clock.now();
    using failed = new DisposableStack();
    failed.defer(() => {
      // The repeated run must not see changes that are not committed.
      live.stale = true;
    });
    const toExecute = { job, deployed, live, run, owner, shard, commitLogs, room };
    const execution = await executeJob(deps, toExecute, respond);
    const { outcome, result, sets, sends, end } = execution;
    noteRun(job, deployed, live, { startedAt, endedAt: clock.now() });
    const reply = passedReply(job, execution);
    if (!reply) respond({ kind: result.ok && outcome.errors.length === 0 ? 'none' : 'failed' });
    meter.countRun(deployed.emitter.owner_id, result.cpuMs);
    room.charge(costOf(execution, replyBytes));
    deps.observe(result.ok ? 'ok' : result.reason, result.durationMs / 1000);
    const thrown = end.state === 'cancelled' ? [] : outcome.errors;
    logRun({ run_id, source_id: sourceId, trace_id: job.trace_id }, result, thrown);
    const arranged = await arrange(outcome, strategyOf(deployed), job.hop);
    const heard = await deps.listenersOfRun(deployed, channelsOf(arranged));
    await before;
    const { published } = commit(live, run, arranged, sets, { ...options, ...heard, end, sends, reply });
    failed.move();
    return { committed: published };
  }

  return {
    forget,
    bytes: commits.bytes,

    async open(epoch, messages, assertHeld) {
      const live = await load(epoch);
      active.unlistRedelivered(sourceId, messages);
      const committed = await findCommitted(store, sourceId, live.known, messages);
      const isRepeated = ({ run_id }: RunsMessage) => committed.has(run_id) || live.known.has(run_id);
      // Before any later message of the source.
      if (isBehind() || messages.some(isRepeated)) await republish();
      let broken = false;
      let last: Promise<unknown> = Promise.resolve();
      const fail = () => {
        broken = true;
      };
      const guarded = (work: () => Promise<void>) => {
        const done = work();
        // Keeps a failure from counting as unhandled before it is awaited.
        done.catch(fail);
        return done;
      };
      /** By run id: a duplicate in the batch shares the result of the first. */
      const started = new Map<string, { executed: Promise<void>; done: Promise<void> }>();
      const platformJobs = new Map<string, Promise<void>>();
      const once = ({ run_id }: RunsMessage, work: () => Promise<void>) => {
        const done = platformJobs.get(run_id) ?? guarded(work);
        platformJobs.set(run_id, done);
        return done;
      };
      return {
        assertIntact() {
          if (broken || live.stale) throw new Fenced(`An earlier job of ${sourceId} failed`);
        },
        run(job, deployed, shard) {
          const same = started.get(job.run_id);
          if (same) return same;
          const isKnown = isRepeated(job);
          const room = openRoom(deployed.emitter.owner_id);
          const execution = isKnown
            ? Promise.resolve({ committed: Promise.resolve() })
            : start(live, job, deployed, shard, last, room, assertHeld);
          // The next run waits for the last one that executes, also with a known one between them.
          if (!isKnown) last = execution;
          const done = guarded(async () => {
            try {
              await (await execution).committed;
            } finally {
              room.release();
            }
          });
          const one = { executed: execution.then(() => {}, fail), done };
          started.set(job.run_id, one);
          return one;
        },
        record: (job, deployed) => once(job, () => jobs.record(live, job, deployed, isRepeated(job))),
        replaceDb: (job, deployed) => once(job, () => jobs.replaceDb(live, job, deployed, isRepeated(job))),
        due: (job, deployed) => once(job, () => jobs.due(live, job, deployed, isRepeated(job))),
      };
    },

    async hook(hook, deployed, until) {
      using room = openRoom(deployed.emitter.owner_id);
      await gate.opened();
      const live = await load();
      const run: RunContext = { ...contextOf(newRunId(), deployed, 'HOOK', clock.now()), hook };
      const owner = await networks.of(deployed.emitter.owner_id);
      // An outage of the store may have lasted for longer.
      until.throwIfAborted();
      // As in `start`.
      if (isForgotten()) throw notFound('source', sourceId);
      const task = taskOf(deployed, owner, live, 'hook', { kind: 'hook', hook });
      const { mask } = deployed.deployment;
      const options: CommitOptions = {
        deployed,
        hop: 0,
        traceId: run.run_id,
        handlesRecords: false,
        triggerEvent: () => null,
        end: { durationMs: 0, cpuMs: 0 },
      };
      // A hook is not executed again, so its commit includes the log lines that could not be committed earlier.
      const lost: LogRecord[] = [];
      const commitLogs = commitsLogs({ live, run, options, room, lost });
      const { outcome, result, sets, end } = await executeRun(
        deps,
        { task, live, run, mask, commitLogs, room },
        () => {},
      ).catch((error: unknown) => {
        // The sets of the hook are never committed, so the map is reread without them.
        live.stale = true;
        throw error;
      });
      meter.countTime(deployed.emitter.owner_id, result.cpuMs);
      room.charge(costOf({ outcome, result, sets }));
      // Hooks are rare: their process is not reused.
      executor.retire(task.processKey!);
      const arranged = await arrange(outcome, strategyOf(deployed), options.hop);
      for (let attempt = 1; ; attempt++) {
        const current = await load();
        // The live state was reread: replay the changes on it.
        const own = current === live ? sets : sets.flatMap(({ key, json }) => replaySet(current, key, json));
        try {
          // If publishing fails, the sweep publishes the row.
          const whole = { ...arranged, logs: [...lost, ...outcome.logs] };
          await commit(current, run, whole, own, { ...options, end }).written;
          break;
        } catch (error) {
          if (!(error instanceof Fenced)) throw error;
          if (isForgotten()) throw notFound('source', sourceId);
          // The commit may have been made and its answer lost. Reading the state appends its pending rows.
          await load();
          if (await isCommitted(store, sourceId, run.run_id)) break;
          if (attempt === MAX_HOOK_COMMITS) throw error;
        }
      }
      return result.ok ? undefined : result.error;
    },
  };
}
