import type { RunJob, RunsMessage } from '@wellspring/contract/messages';
import { eventSortKey, parseEventId } from '@wellspring/core/event-id';
import { type EventRow, events } from '@wellspring/store/collections/events';
import type { Store } from '@wellspring/store/port';

/** By so much the clocks of processes may differ. */
const SKEW_MS = 10_000;
const PAGE = 500;

/**
 * The ids of those runs of a source that come again (see RunJob) and have left events: they were committed, however long
 * ago. One that emits nothing leaves no trace beyond what the state remembers.
 */
export async function repeatedRuns(
  store: Store,
  sourceId: string,
  messages: readonly RunsMessage[],
): Promise<Set<string>> {
  const asked = messages.filter((one): one is RunJob => one.type === 'run' && one.redelivered === true);
  const repeated = new Set<string>();
  if (asked.length === 0) return repeated;
  const ids = new Set(asked.map(({ run_id }) => run_id));
  const since = Math.min(...asked.map(earliest)) - SKEW_MS;
  const rows = store.collection(events);
  for (const stream of ['events', '$errors'] as const) {
    let after: string | undefined = eventSortKey({ ms: Math.max(0, since), n: 0 });
    while (after !== undefined) {
      const page: EventRow[] = await rows.list({
        where: { partition: `${sourceId}/${stream}`, sort_key: { gt: after } },
        orderBy: 'sort_key',
        order: 'asc',
        limit: PAGE,
      });
      for (const { run_id } of page) if (ids.has(run_id)) repeated.add(run_id);
      after = page.length < PAGE ? undefined : page.at(-1)!.sort_key;
    }
  }
  return repeated;
}

/** Epoch ms before which it cannot have run; its `accepted_at` may be that of the repetition. */
function earliest({ trigger, accepted_at }: RunJob): number {
  if (trigger.kind === 'event') return parseEventId(trigger.event_id)?.ms ?? 0;
  return trigger.kind === 'timer' ? trigger.due_at : accepted_at;
}
