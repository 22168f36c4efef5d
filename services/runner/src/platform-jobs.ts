import { LIMITS } from '@wellspring/contract/limits';
import {
  type DbJob,
  type DueJob,
  type HttpReply,
  MAX_HOPS,
  type RecordJob,
} from '@wellspring/contract/messages';
import type { Deps } from '@wellspring/runtime/deps';
import { type EventRow, type EventStream, events, marksOf } from '@wellspring/store/collections/events';
import type { EmitterStateRow } from '@wellspring/store/collections/states';
import { allocateIds } from './allocate-ids.ts';
import type { Deployed } from './catalog.ts';
import type { CommitGroup, Part } from './commit-group.ts';
import { errorRow, eventRows } from './commit-rows.ts';
import { type LiveState, replaceDb } from './live-state.ts';
import { contextOf } from './run-task.ts';

export interface PlatformJobsDeps extends Pick<Deps, 'store' | 'clock' | 'call' | 'memory'> {
  join(live: LiveState, ownerId: string, state: EmitterStateRow, part: Part): CommitGroup;
}

/**
 * Jobs that run no code: records of other services, delayed events that are due, and new maps of `$service.db`.
 * `isRepeated`: the job was committed before.
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
      const { channel: name, payload } = job;
      const { state, part } = prepareEvent(live.row, now, {
        job,
        trace_id: job.run_id,
        stream: '$errors',
        event: { name, payload },
        // Bounds the loop of a request whose failure record triggers it again.
        isEmitted: job.hop <= MAX_HOPS,
        rowOf: (sortKey) => errorRow(run, sortKey, now, payload),
      });
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
          const { name, payload, emit_id, meta_id: id, summary, ts } = waiting;
          const { state, part } = prepareEvent(live.row, now, {
            job,
            trace_id: job.trace_id,
            stream: 'events',
            event: waiting,
            isEmitted: true,
            rowOf: (sortKey) => ({
              ...eventRows(run, 'events')(sortKey, now, { name, payload, summary, ts, id }),
              emit_id,
            }),
          });
          await join(live, owner_id, state, part).published;
        }
        if (waiting) await rows.remove(waiting.id);
      } finally {
        memory();
      }
    },
  };
}

interface EventOfJob {
  job: RecordJob | DueJob;
  trace_id: string;
  stream: EventStream;
  event: Pick<EventRow, 'name' | 'payload'>;
  isEmitted: boolean;
  rowOf(sortKey: string): EventRow;
}

/** The commit of a job with one event. */
function prepareEvent(
  before: EmitterStateRow,
  now: number,
  { job: { run_id, hop }, trace_id, stream, event: { name, payload }, isEmitted, rowOf }: EventOfJob,
): { state: EmitterStateRow; part: Part } {
  const { ids, lastIds } = allocateIds(before.last_ids, stream, now);
  const { state, mark } = prepareMark({ ...before, last_ids: lastIds }, run_id, now);
  const emitted = isEmitted ? [{ event_id: ids.eventId(), name, payload }] : [];
  const part = { run_id, trace_id, hop, events: [rowOf(ids.sortKey())], logs: mark, emitted };
  return { state, part: { ...part, bytes: payload.length } };
}

/** The mark of a job without log records. */
function prepareMark(
  before: EmitterStateRow,
  run_id: string,
  now: number,
): { state: EmitterStateRow; mark: Part['logs'] } {
  const { ids, lastIds } = allocateIds(before.last_ids, '$logs', now);
  const emitter_id = marksOf(before.id);
  const sort_key = ids.sortKey();
  const key = { id: `${emitter_id}/${sort_key}`, emitter_id, sort_key };
  const mark = { ...key, run_id, ended: true as const, indexed_at_ms: now, count: 1, records: [] };
  return { state: { ...before, last_ids: lastIds }, mark };
}
