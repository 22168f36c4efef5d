import { LIMITS } from '@wellspring/contract/limits';
import type { DbJob, DueJob, HttpReply, RecordJob } from '@wellspring/contract/messages';
import type { Deps } from '@wellspring/runtime/deps';
import { type EventRow, events } from '@wellspring/store/collections/events';
import type { EmitterStateRow } from '@wellspring/store/collections/states';
import type { Deployed } from './catalog.ts';
import type { CommitGroup, Part } from './commit-group.ts';
import { prepareMark, prepareRecord } from './commit-record.ts';
import { eventRows } from './commit-rows.ts';
import { type LiveState, replaceDb } from './live-state.ts';
import { nextSortKey } from './next-sort-key.ts';
import type { RunContext } from './records.ts';
import { contextOf } from './run-task.ts';

export interface PlatformJobsDeps extends Pick<Deps, 'store' | 'clock' | 'call' | 'memory'> {
  join(live: LiveState, ownerId: string, state: EmitterStateRow, part: Part): CommitGroup;
}

/**
 * Jobs that run no code: records of other services, and delayed events that are due. `isRepeated`: the job was committed
 * before.
 */
export function createPlatformJobs({ store, clock, call, memory: { effects }, join }: PlatformJobsDeps) {
  const rows = store.collection(events);
  return {
    /** The runs before it have executed. The caller is answered once the new map is durable. */
    async replaceDb(live: LiveState, job: DbJob, deployed: Deployed, isRepeated: boolean): Promise<void> {
      const { run_id, reply_to } = job;
      if (!isRepeated) {
        replaceDb(live, job.db);
        const { state, mark } = prepareMark({ ...live.row, db: job.db }, run_id, clock.now());
        const part = { run_id, trace_id: run_id, hop: 0, events: [], logs: mark, emitted: [], bytes: 0 };
        await join(live, deployed.emitter.owner_id, state, part).written;
      }
      call.reply(reply_to, { kind: 'none' } satisfies HttpReply);
    },

    async record(live: LiveState, job: RecordJob, deployed: Deployed, isRepeated: boolean): Promise<void> {
      if (isRepeated) return;
      const now = clock.now();
      const run = contextOf(job.run_id, deployed, 'EMIT', now);
      const { state, part } = prepareRecord(live.row, run, job, now);
      await join(live, deployed.emitter.owner_id, state, part).published;
    },

    /** The delayed event is removed after the commit; a crash in between repeats only the removal. */
    async due(live: LiveState, job: DueJob, deployed: Deployed, isRepeated: boolean): Promise<void> {
      const { owner_id } = deployed.emitter;
      // Not the owner's share for output: its runs may take long.
      const memory = await effects.take(LIMITS.emit, `delayed ${owner_id}`);
      try {
        const waiting = await rows.get(`${job.source_id}/$in/${job.sort_key}`);
        memory.keep(waiting?.payload.length ?? 0);
        if (!isRepeated && waiting) {
          const now = clock.now();
          const run = contextOf(job.run_id, deployed, 'EMIT', now);
          const { state, part } = prepareDue(live.row, run, job, waiting, now);
          await join(live, owner_id, state, part).published;
        }
        if (waiting) await rows.remove(waiting.id);
      } finally {
        memory();
      }
    },
  };
}

/** The commit that makes a delayed event an ordinary one. */
function prepareDue(
  before: EmitterStateRow,
  run: RunContext,
  { run_id, hop, trace_id }: DueJob,
  waiting: EventRow,
  now: number,
): { state: EmitterStateRow; part: Part } {
  const { name, payload, emit_id, meta_id, summary, ts } = waiting;
  const { sortKey, lastIds } = nextSortKey(before.last_ids, 'events', now);
  const { state, mark } = prepareMark({ ...before, last_ids: lastIds }, run_id, now);
  const event = {
    ...eventRows(run, 'events')(sortKey.text, now, { name, payload, summary, ts, id: meta_id }),
    emit_id,
  };
  const emitted = [{ event_id: sortKey.eventId, name, payload }];
  return {
    state,
    part: { run_id, trace_id, hop, events: [event], logs: mark, emitted, bytes: payload.length },
  };
}
