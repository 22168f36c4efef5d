import type { Clock } from '@wellspring/core/clock';
import { allocateIds } from './allocate-ids.ts';
import { emittedLogs, logRow, sizeOfLogs } from './commit-rows.ts';
import type { LiveState } from './live-state.ts';
import { sizeOf } from './owner-costs.ts';
import type { LogRecord, RunContext } from './records.ts';
import type { RunRoom } from './run-room.ts';
import type { CommitOptions, createStateCommits } from './state-commits.ts';

interface LogCommitsDeps
  extends Pick<ReturnType<typeof createStateCommits>, 'join' | 'isForgotten'>,
    Pick<Clock, 'now'> {}

interface RunOfLogs {
  live: LiveState;
  run: RunContext;
  options: CommitOptions;
  room: Pick<RunRoom, 'charge'>;
  /** Gets the lines that could not be committed. */
  lost?: LogRecord[];
}

/**
 * Commits log lines of a run in progress. After a failure the commit of the run fails, too; the run is then redelivered and
 * logs its lines again.
 */
export const logCommits =
  ({ join, isForgotten, now }: LogCommitsDeps, { live, run, options, room, lost = [] }: RunOfLogs) =>
  (records: LogRecord[]): void => {
    if (live.stale || isForgotten()) {
      lost.push(...records);
      return;
    }
    const { deployed, hop, traceId, handlesRecords } = options;
    const wanted = deployed.logsWanted && !handlesRecords;
    const at = now();
    const { ids, lastIds } = allocateIds(live.row.last_ids, '$logs', at, records.length);
    const part = {
      // The outbox row has the id of the first part: the commit of the run has its own.
      ...{ run_id: `${run.run_id}/logs/${ids.eventId()}`, trace_id: traceId, hop, events: [] },
      logs: logRow(run, records, ids.sortKey(), at),
      emitted: wanted ? emittedLogs(ids, records) : [],
      bytes: wanted ? sizeOfLogs(records) : 0,
    };
    const state = { ...live.row, last_ids: lastIds };
    room.charge(sizeOf({ logs: records }));
    join(live, deployed.emitter.owner_id, state, part).written.catch(() => lost.push(...records));
  };
