import type { RunsMessage } from '@wellspring/contract/messages';
import { parseEventId } from '@wellspring/core/event-id';
import { logs, marksOf } from '@wellspring/store/collections/events';
import type { Store } from '@wellspring/store/port';

/**
 * The newest committed runs of a source. An earlier run is known by its mark in the store (see LogRow). The mark is
 * looked up for jobs that may have run before: those flagged as redelivered, and those older than this memory.
 */
export interface KnownRuns {
  add(runId: string, now: number): void;
  has(runId: string): boolean;
  readonly size: number;
  /** Time from which on all commits are known, epoch ms. */
  readonly since: number;
}

/** Assumed difference between the clocks of two processes. The embedded store, which publishes commits, has one process. */
const MAX_CLOCK_SKEW_MS = 10_000;
const REMEMBERED_MS = 6 * MAX_CLOCK_SKEW_MS;

/** @param loadedAt when the state was read */
export function createKnownRuns(loadedAt: number): KnownRuns {
  /** Times of commit; oldest first. */
  const known = new Map<string, number>();
  let since = loadedAt;
  return {
    add(runId, now) {
      known.set(runId, now);
      for (const [id, at] of known) {
        // The clock may have been set back.
        if (Math.abs(now - at) <= REMEMBERED_MS) break;
        known.delete(id);
        since = Math.max(since, at);
      }
    },
    has: (runId) => known.has(runId),
    get size() {
      return known.size;
    },
    get since() {
      return since;
    },
  };
}

/** Run ids among the messages of a source that the store shows as committed; those that `known` contains are left out. */
export async function findCommitted(
  store: Store,
  sourceId: string,
  known: KnownRuns,
  messages: readonly RunsMessage[],
): Promise<ReadonlySet<string>> {
  const since = known.since + (store.publishesCommits ? 0 : MAX_CLOCK_SKEW_MS);
  const unsure = messages.filter((message) => message.redelivered || earliest(message) <= since);
  const ids = unsure.map(({ run_id }) => run_id).filter((id) => !known.has(id));
  if (ids.length === 0) return new Set();
  return marked(store, sourceId, ids);
}

export const isCommitted = async (store: Store, sourceId: string, runId: string): Promise<boolean> =>
  (await marked(store, sourceId, [runId])).has(runId);

async function marked(store: Store, sourceId: string, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const found = await store.collection(logs).list({ where: { run_id: { in: ids } }, texts: false });
  // A run of another source may have the same id. Not part of `where`, so that the index of `run_id` is used.
  const emitters = [sourceId, marksOf(sourceId)];
  const marks = found.filter(({ ended, emitter_id }) => ended && emitters.includes(emitter_id));
  return new Set(marks.map(({ run_id }) => run_id));
}

/** Earliest possible start, epoch ms. `accepted_at` may be that of the redelivery. */
function earliest(message: RunsMessage): number {
  if (message.type === 'due') return message.due_at;
  if (message.type !== 'run') return 0;
  const { trigger, accepted_at } = message;
  if (trigger.kind === 'event') return parseEventId(trigger.event_id)?.ms ?? 0;
  return trigger.kind === 'timer' ? trigger.due_at : accepted_at;
}
