import type { DueJob, RunJob, RunsMessage } from '@wellspring/contract/messages';
import { eventSortKey, parseEventId } from '@wellspring/core/event-id';
import { type EventRow, events } from '@wellspring/store/collections/events';
import type { Store } from '@wellspring/store/port';

/** Assumed difference between the clocks of two processes. */
const MAX_CLOCK_SKEW_MS = 10_000;
const PAGE_SIZE = 500;

/**
 * The ids of redelivered runs that have stored events, and thus were committed. A run without events is recognized only
 * while the state lists it.
 */
export async function runsWithEvents(
  store: Store,
  sourceId: string,
  messages: readonly RunsMessage[],
): Promise<Set<string>> {
  const redelivered = messages.filter(
    (one): one is RunJob | DueJob => (one.type === 'run' || one.type === 'due') && one.redelivered === true,
  );
  const found = new Set<string>();
  if (redelivered.length === 0) return found;
  const ids = new Set(redelivered.map(({ run_id }) => run_id));
  const since = Math.min(...redelivered.map(earliest)) - MAX_CLOCK_SKEW_MS;
  const rows = store.collection(events);
  for (const stream of ['events', '$errors', '$sse'] as const) {
    let after: string | undefined = eventSortKey({ ms: Math.max(0, since), n: 0 });
    while (after !== undefined) {
      const page: EventRow[] = await rows.list({
        where: { partition: `${sourceId}/${stream}`, sort_key: { gt: after } },
        orderBy: 'sort_key',
        order: 'asc',
        limit: PAGE_SIZE,
      });
      for (const { run_id } of page) if (ids.has(run_id)) found.add(run_id);
      after = page.length < PAGE_SIZE ? undefined : page.at(-1)!.sort_key;
    }
  }
  return found;
}

/** Earliest possible start, epoch ms. `accepted_at` may be that of the redelivery. */
function earliest(job: RunJob | DueJob): number {
  if (job.type === 'due') return job.due_at;
  const { trigger, accepted_at } = job;
  if (trigger.kind === 'event') return parseEventId(trigger.event_id)?.ms ?? 0;
  return trigger.kind === 'timer' ? trigger.due_at : accepted_at;
}
