import type { CollectionDefinition } from '../collection-definition.ts';

/** A committed run whose `emitted` message may not have been published yet; removed after the publish. */
export interface OutboxRow {
  /** The run id. */
  id: string;
  emitter_id: string;
  created_at_ms: number;
  /** Version of the state after the commit: grows with the commits of the emitter. Absent: of a former release. */
  commit?: number;
  /** JSON text of the EmittedMessage. */
  message: string;
}

export const outbox: CollectionDefinition<OutboxRow> = {
  name: 'outbox',
  indexes: [{ fields: ['created_at_ms'] }, { fields: ['emitter_id'] }],
  texts: ['message'],
};

/** Orders the rows of an emitter as they were committed: the clock may have been set back in between. */
export const byCommit = (a: OutboxRow, b: OutboxRow): number =>
  (a.commit ?? 0) - (b.commit ?? 0) || a.created_at_ms - b.created_at_ms || (a.id < b.id ? -1 : 1);
