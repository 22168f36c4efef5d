import type { ThrownError } from '@wellspring/component/child/program-types';
import type { HookName } from '@wellspring/contract/definition';
import { LIMITS } from '@wellspring/contract/limits';
import type { EmittedMessage, HttpReply, RecordJob, RunJob } from '@wellspring/contract/messages';
import { newId } from '@wellspring/core/ids';
import type { Deps } from '@wellspring/runtime/deps';
import type { Executor, Host, Result, Task } from '@wellspring/sandbox/port';
import { COMMITTED_RUNS, type EmitterStateRow, states } from '@wellspring/store/collections/states';
import type { RunCommit } from '@wellspring/store/port';
import type { Deployed } from './catalog.ts';
import { eventRow, type Outcome, prepareCommit } from './commit.ts';
import { type Announcer, outboxRow } from './emitted.ts';
import { type Live, liveState, setDb } from './live-state.ts';
import { nextSortKey } from './next-sort-key.ts';
import {
  type LogRecord,
  logRecord,
  type RunContext,
  SOURCE_TYPES,
  type SourceType,
  skippedTick,
  timerEvent,
  triggerEvent,
} from './records.ts';
import type { UsageMeter } from './usage.ts';

/** What the lanes of a runner share. */
export interface LaneDeps extends Pick<Deps, 'store' | 'call' | 'clock' | 'log' | 'metrics'> {
  executor: Executor;
  announcer: Announcer;
  meter: UsageMeter;
  /** Called for each run: result and seconds. */
  observe(result: string, seconds: number): void;
}

/**
 * The live state of one source: its `$service.db`, what dedupe knows, its newest ids. One lane exists per source in
 * the whole platform; the version of the stored state is the fence should there ever be two.
 *
 * Runs are executed one after the other; while the commit of one is being made durable, the next may execute.
 * Commits take effect in their order, so after a crash the stored state is that after some run, and the runs behind
 * it are handed out again.
 */
export interface Lane {
  /** Resolves when the run is committed and announced; `executed` tells when the next one may start. */
  run(
    job: RunJob,
    deployed: Deployed,
    options: { slot: string; logsWanted: boolean },
  ): { executed: Promise<void>; done: Promise<void> };
  record(job: RecordJob, deployed: Deployed): Promise<void>;
  /** Runs a hook in a process of its own; gives what it threw. */
  hook(hook: HookName, deployed: Deployed, logsWanted: boolean): Promise<ThrownError | undefined>;
  /** The source was deleted: nothing is committed any more. */
  forget(): void;
  readonly busy: boolean;
}

/** The commit was refused: another runner holds the source. The jobs are handed out again. */
export class Fenced extends Error {
  override readonly name = 'Fenced';
}

export function createLane(sourceId: string, deps: LaneDeps): Lane {
  const { store, executor, clock, call, announcer, meter } = deps;
  const stateRows = store.collection(states);
  let loading: Promise<Live> | undefined;
  let active = 0;
  let revision = 0;
  let lastEndedAt = 0;
  let lastTickEndedAt = 0;
  let forgotten = false;

  /** The live state; read from the store once, and again after a commit failed. */
  function load(): Promise<Live> {
    loading ??= (async () => {
      const found = await stateRows.getVersioned(sourceId);
      revision += 1;
      return liveState(sourceId, found, revision);
    })();
    loading.catch(() => {
      loading = undefined;
    });
    return loading;
  }

  /** Writes a commit built from the live state. Must be called in the same turn in which it was built. */
  async function write(
    live: Live,
    commit: Omit<RunCommit, 'state' | 'ifVersion'>,
    state: EmitterStateRow,
  ): Promise<void> {
    if (forgotten) throw new Fenced(`${sourceId} was deleted`);
    const ifVersion = live.version;
    live.row = { ...state, db: live.row.db };
    live.version += 1;
    let written = false;
    try {
      written = await store.commitRun({ ...commit, state: { ...state, db: { ...live.row.db } }, ifVersion });
    } finally {
      // What was built on top of this commit fails too; the next job reads the stored state again.
      if (!written) loading = undefined;
    }
    if (!written) throw new Fenced(`the state of ${sourceId} was changed by somebody else`);
  }

  async function commit(
    live: Live,
    run: RunContext,
    outcome: Outcome,
    { deployed, hop, trace_id, handlesRecords, logsWanted, event, durationMs }: CommitContext,
  ): Promise<void> {
    const now = clock.now();
    const prepared = prepareCommit({
      state: live.row,
      run,
      outcome,
      strategy: deployed.deployment.definition.dedupe,
      hop,
      triggerEvent: event,
      handlesRecords,
      logsWanted,
      durationMs,
      now,
    });
    const message: EmittedMessage = {
      v: 1,
      type: 'emitted',
      run_id: run.run_id,
      emitter_id: sourceId,
      owner_id: deployed.source.owner_id,
      hop,
      trace_id,
      events: prepared.emitted,
    };
    const outbox = prepared.emitted.length > 0 ? outboxRow(message, now) : undefined;
    await write(live, { events: prepared.events, logs: prepared.logs, outbox }, prepared.state);
    announcer.wake(sourceId);
    if (outbox) await announcer.announce(outbox);
  }

  /** Executes and collects what the code does, in order. */
  async function execute(
    task: Task,
    live: Live,
    run: RunContext,
    respond: (reply: HttpReply) => void,
  ): Promise<{ outcome: Outcome; result: Result }> {
    const emits: Outcome['emits'][number][] = [];
    const errors: ThrownError[] = [];
    const logs: LogRecord[] = [{ ts: clock.now(), k: 'start', level: 'info', execution_id: run.run_id }];
    const host: Host = {
      emit(emit) {
        emits.push(emit);
        logs.push({
          ts: emit.at,
          k: 'emit',
          level: 'info',
          execution_id: run.run_id,
          en: emit.name,
          ...(emit.summary === null ? {} : { msg: emit.summary }),
        });
      },
      fault: (error) => errors.push(error),
      log: (line) => logs.push(logRecord(run, line)),
      respond(reply) {
        respond({ kind: 'response', ...reply });
        logs.push({
          ts: clock.now(),
          k: 'respond',
          level: 'info',
          execution_id: run.run_id,
          msg: String(reply.status),
        });
      },
      dbSet(key, json) {
        const problem = setDb(live, key, json);
        if (problem) errors.push({ name: 'RangeError', message: problem, stack: '' });
        return live.dbRevision;
      },
    };
    active += 1;
    try {
      const result = await executor.execute(task, host, { timeoutMs: LIMITS.runMs });
      if (!result.ok) errors.push(result.error);
      return { outcome: { emits, errors, logs }, result };
    } finally {
      active -= 1;
    }
  }

  const task = (deployed: Deployed, live: Live, lane: string, what: Task['call']): Task => ({
    process: `${sourceId}/${deployed.deployment.id}/${lane}`,
    bundle: deployed.deployment.bundle,
    bundleId: deployed.deployment.bundleId,
    instance: { ...deployed.deployment.instance, db: live.row.db, dbRevision: live.dbRevision },
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

  /** A tick that fell due while the source was running is not made up for. */
  const overtaken = (job: RunJob, { source }: Deployed) =>
    job.trigger.kind === 'timer' &&
    job.trigger.due_at < (source.concurrency > 1 ? lastTickEndedAt : lastEndedAt);

  async function start(job: RunJob, deployed: Deployed, slot: string, logsWanted: boolean) {
    const live = await load();
    const { trigger } = job;
    let answered = job.reply_to === undefined;
    const respond = (reply: HttpReply) => {
      if (answered) return;
      answered = true;
      call.reply(job.reply_to!, reply);
    };
    if (live.row.committed.includes(job.run_id)) {
      const left = await announcer.pending(job.run_id);
      return { committed: left ? announcer.announce(left) : Promise.resolve() };
    }
    const run = contextOf(job.run_id, deployed, SOURCE_TYPES[trigger.kind], job.accepted_at);
    const context: CommitContext = {
      deployed,
      hop: job.hop,
      trace_id: job.trace_id,
      handlesRecords: trigger.kind === 'event' && /^\$(errors|logs)$/.test(trigger.event_name),
      logsWanted,
      event: () => triggerEvent(trigger),
      durationMs: 0,
    };
    if (overtaken(job, deployed)) {
      return {
        committed: commit(
          live,
          run,
          { emits: [], errors: [], logs: [skippedTick(run, trigger, clock.now())] },
          context,
        ),
      };
    }
    const { definition } = deployed.deployment;
    const { outcome, result } = await execute(
      task(deployed, live, `run${slot}`, {
        kind: 'run',
        trigger:
          trigger.kind === 'http'
            ? { kind: 'http', request: trigger.request }
            : {
                kind: 'value',
                json:
                  trigger.kind === 'timer' ? JSON.stringify(timerEvent(trigger)) : (trigger.payload ?? '{}'),
              },
        emitTrigger: !definition.has_run,
      }),
      live,
      run,
      respond,
    );
    lastEndedAt = clock.now();
    if (trigger.kind === 'timer') lastTickEndedAt = lastEndedAt;
    respond({ kind: result.ok && outcome.errors.length === 0 ? 'none' : 'failed' });
    meter.count(deployed.source.owner_id, result.cpuMs);
    deps.observe(result.ok ? 'ok' : result.reason, result.durationMs / 1000);
    deps.log.debug(
      {
        run_id: job.run_id,
        source_id: sourceId,
        trace_id: job.trace_id,
        ok: result.ok,
        duration_ms: result.durationMs,
      },
      'run.finished',
    );
    return { committed: commit(live, run, outcome, { ...context, durationMs: result.durationMs }) };
  }

  return {
    forget() {
      forgotten = true;
    },
    get busy() {
      return active > 0;
    },
    run(job, deployed, { slot, logsWanted }) {
      const started = start(job, deployed, slot, logsWanted);
      // Whoever waits for `done` sees the failure; until then it must not count as unhandled.
      const done = started.then(({ committed }) => committed);
      done.catch(() => {});
      return {
        executed: started.then(
          ({ committed }) => {
            committed.catch(() => {});
          },
          () => {},
        ),
        done,
      };
    },

    async record(job, deployed) {
      const live = await load();
      if (live.row.committed.includes(job.run_id)) {
        const left = await announcer.pending(job.run_id);
        return left && announcer.announce(left);
      }
      const now = clock.now();
      const run = contextOf(job.run_id, deployed, 'EMIT', now);
      const isError = job.channel === '$errors';
      const { sortKey, lastIds } = nextSortKey(live.row.last_ids, job.channel, now);
      const state = {
        ...live.row,
        last_ids: lastIds,
        committed: [...live.row.committed, job.run_id].slice(-COMMITTED_RUNS),
      };
      const message = outboxRow(
        {
          v: 1,
          type: 'emitted',
          run_id: job.run_id,
          emitter_id: sourceId,
          owner_id: deployed.source.owner_id,
          hop: job.hop,
          trace_id: job.run_id,
          events: [{ event_id: sortKey.eventId, name: job.channel, payload: job.payload }],
        },
        now,
      );
      await write(
        live,
        {
          events: isError
            ? [eventRow(run, '$errors', '$errors', sortKey.text, now, { payload: job.payload })]
            : [],
          logs: isError
            ? undefined
            : {
                id: `${sourceId}/${sortKey.text}`,
                emitter_id: sourceId,
                sort_key: sortKey.text,
                run_id: job.run_id,
                indexed_at_ms: now,
                count: 1,
                records: `[${job.payload}]`,
              },
          outbox: message,
        },
        state,
      );
      announcer.wake(sourceId);
      await announcer.announce(message);
    },

    async hook(hook, deployed, logsWanted) {
      const live = await load();
      const run: RunContext = { ...contextOf(newId('run'), deployed, 'HOOK', clock.now()), hook };
      const hookTask = task(deployed, live, 'hook', { kind: 'hook', hook });
      const { outcome, result } = await execute(hookTask, live, run, () => {});
      // Hooks are rare: their process is not worth keeping.
      executor.retire(hookTask.process!);
      // A run may have failed to commit meanwhile, which made the lane read its state again.
      await commit(await load(), run, outcome, {
        deployed,
        hop: 0,
        trace_id: run.run_id,
        handlesRecords: false,
        logsWanted,
        event: () => null,
        durationMs: result.durationMs,
      });
      return result.ok ? undefined : result.error;
    },
  };
}

interface CommitContext {
  deployed: Deployed;
  hop: number;
  trace_id: string;
  handlesRecords: boolean;
  logsWanted: boolean;
  event: () => unknown;
  durationMs: number;
}
