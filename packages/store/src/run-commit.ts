import type { EventRow, LogRow } from './collections/events.ts';
import type { OutboxRow } from './collections/outbox.ts';
import type { EmitterStateRow } from './collections/states.ts';

/** The fields of a state that may be large. */
export type LargeField = 'db' | 'dedupe';

/**
 * Rows of events in order, made when they are read, since a run may emit thousands. Each iteration gives rows with the
 * same ids: a commit that failed is tried again.
 */
export interface EventRows extends Iterable<EventRow> {
  readonly length: number;
}

/** All rows that one run, or several runs of one emitter, write. See docs/architecture.md, rule 4. */
export interface RunCommit {
  /**
   * The new state; its id is that of the emitter. Large fields are written only if they are given: without them the stored
   * ones stay.
   *
   * Its epoch is that of the lease on the partition under which the run was executed (the fencing token). A commit with
   * an earlier epoch than the stored state is always refused, even with the right version. Work without a job (a hook) has
   * the epoch of the newest job of the state in memory, else that of the stored state: until the next owner commits, only
   * the version fences it.
   */
  state: Omit<EmitterStateRow, LargeField> & Partial<Pick<EmitterStateRow, LargeField>>;
  /** Version of the state that this one is based on; 0 for a new state. */
  ifVersion: number;
  events: EventRows;
  logs: readonly LogRow[];
  outbox?: OutboxRow | undefined;
}
