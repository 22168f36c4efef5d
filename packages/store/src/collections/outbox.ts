import type { CollectionDefinition } from '../collection-definition.ts';

/** A committed run whose `emitted` message may not have been published yet; removed after the publish. */
export interface OutboxRow {
  /** The run id. */
  id: string;
  emitter_id: string;
  created_at_ms: number;
  /** JSON text of the EmittedMessage. */
  message: string;
}

export const outbox: CollectionDefinition<OutboxRow> = {
  name: 'outbox',
  indexes: [{ fields: ['created_at_ms'] }, { fields: ['emitter_id'] }],
  texts: ['message'],
};
