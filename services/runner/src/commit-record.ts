import type { RecordJob } from '@wellspring/contract/messages';
import { COMMITTED_RUNS, type EmitterStateRow } from '@wellspring/store/collections/states';
import type { RunCommit } from '@wellspring/store/port';
import { eventRow } from './commit.ts';
import { outboxRow } from './emitted.ts';
import { nextSortKey } from './next-sort-key.ts';
import type { RunContext } from './records.ts';

/** What puts the record of another service on its channel, and what announces it. */
export function prepareRecord(
  before: EmitterStateRow,
  run: RunContext,
  { run_id, channel, payload, hop }: RecordJob,
  now: number,
): {
  state: EmitterStateRow;
  commit: Pick<RunCommit, 'events' | 'logs'>;
  outbox: ReturnType<typeof outboxRow>;
} {
  const { sortKey, lastIds } = nextSortKey(before.last_ids, channel, now);
  const state = {
    ...before,
    last_ids: lastIds,
    committed: [...before.committed, run_id].slice(-COMMITTED_RUNS),
  };
  const outbox = outboxRow(
    {
      v: 1,
      type: 'emitted',
      run_id,
      emitter_id: run.source_id,
      owner_id: run.owner_id,
      hop,
      trace_id: run_id,
      events: [{ event_id: sortKey.eventId, name: channel, payload }],
    },
    now,
  );
  if (channel === '$errors') {
    const event = eventRow(run, '$errors', '$errors', sortKey.text, now, { payload });
    return { state, commit: { events: [event] }, outbox };
  }
  const logs = {
    id: `${run.source_id}/${sortKey.text}`,
    emitter_id: run.source_id,
    sort_key: sortKey.text,
    run_id,
    indexed_at_ms: now,
    count: 1,
    records: `[${payload}]`,
  };
  return { state, commit: { events: [], logs }, outbox };
}
