import type { RunsMessage } from '@wellspring/contract/messages';
import { createLru } from '@wellspring/core/lru';
import type { Deps } from '@wellspring/runtime/deps';
import { runningRuns } from '@wellspring/store/collections/running-runs';
import { type RunContext, triggerOf } from './records.ts';

/** A run of this process that has not ended. */
export interface ActiveRun {
  /** Aborted when the run is cancelled. */
  signal: AbortSignal;
  /** Its code starts: before, it waits for earlier runs of its source, or for a process. */
  start(): void;
  /** Its last log lines are committed with the run. */
  end(): void;
}

/**
 * The runs of this process. Those that last get a row, so that they can be listed and cancelled, and their log lines are
 * committed while they run. Short runs cost no write.
 */
export interface ActiveRuns {
  /** @param flushLogs commits the log lines so far */
  begin(run: RunContext, startedAt: number, flushLogs: () => void): ActiveRun;
  /** Removes the rows of redelivered runs: a process that crashed may have left them. */
  unlistRedelivered(sourceId: string, messages: readonly RunsMessage[]): void;
  /** @returns whether the run was found */
  cancel(runId: string): boolean;
}

/** Cancelled runs that are remembered: after a failed commit they are redelivered, and must not execute again. */
const MAX_CANCELLED = 1_000;
/** Runs that take longer are listed as running. */
const LISTED_AFTER_MS = 500;
const SWEEP_INTERVAL_MS = 250;

export function createActiveRuns({ store, clock, log }: Pick<Deps, 'store' | 'clock' | 'log'>): ActiveRuns {
  const rows = store.collection(runningRuns);
  interface Entry {
    run: RunContext;
    startedAt: number;
    /** Infinite: it waits. */
    codeStartedAt: number;
    controller: AbortController;
    flushLogs(): void;
    /** The insertion of its row, once it lasts. */
    listed: Promise<void> | undefined;
  }
  const entries = new Map<string, Entry>();
  const cancelled = createLru<true>(MAX_CANCELLED);
  let isSweeping = false;

  // The list is for people: without the store, it lacks a run or shows one for longer.
  const ignoreOutage = (error: Error) => log.debug({ error: error.message }, 'run.list_failed');

  async function insert({ run, startedAt }: Entry): Promise<void> {
    const row = { emitter_id: run.source_id, trigger: triggerOf(run), started_at_ms: startedAt };
    await rows.insertMany([{ id: run.run_id, ...row }]);
  }

  /** Only while there are runs: an idle process sleeps. */
  async function sweep(): Promise<void> {
    if (isSweeping) return;
    isSweeping = true;
    while (entries.size > 0) {
      await clock.sleep(SWEEP_INTERVAL_MS);
      const begunBefore = clock.now() - LISTED_AFTER_MS;
      for (const entry of entries.values()) {
        if (entry.codeStartedAt > begunBefore) continue;
        entry.listed ??= insert(entry).catch(ignoreOutage);
        entry.flushLogs();
      }
    }
    isSweeping = false;
  }

  return {
    begin(run, startedAt, flushLogs) {
      const entry: Entry = {
        run,
        startedAt,
        codeStartedAt: Number.POSITIVE_INFINITY,
        flushLogs,
        controller: new AbortController(),
        listed: undefined,
      };
      entries.set(run.run_id, entry);
      void sweep();
      if (cancelled.has(run.run_id)) entry.controller.abort();
      return {
        signal: entry.controller.signal,
        start() {
          // Each step of a workflow is a call.
          entry.codeStartedAt = Math.min(entry.codeStartedAt, clock.now());
        },
        end() {
          if (entries.get(run.run_id) === entry) entries.delete(run.run_id);
          entry.listed?.then(() => rows.remove(run.run_id)).catch(ignoreOutage);
        },
      };
    },
    unlistRedelivered(sourceId, messages) {
      const ids = messages.filter(({ redelivered }) => redelivered).map(({ run_id }) => run_id);
      if (ids.length === 0) return;
      rows.removeWhere({ id: { in: ids }, emitter_id: sourceId }).catch(ignoreOutage);
    },
    cancel(runId) {
      const entry = entries.get(runId);
      if (entry) cancelled.set(runId, true);
      entry?.controller.abort();
      return entry !== undefined;
    },
  };
}
