import type { CollectionDefinition } from '../collection-definition.ts';

/** A delayed event that waits in the stream `$in`. It outlives a deletion of the event until it is due. */
export interface DelayedRow {
  /** Of the event: `<emitter_id>/$in/<sort key>` */
  id: string;
  emitter_id: string;
  owner_id: string;
  sort_key: string;
  /** Epoch ms from which it may be claimed; later the end of the lease. */
  due_at: number;
  /** Epoch ms at which it is delivered. */
  delivery_ts: number;
  hop: number;
  trace_id: string;
}

export const delayed: CollectionDefinition<DelayedRow> = {
  name: 'delayed',
  indexes: [{ fields: ['due_at'] }, { fields: ['owner_id', 'due_at'] }, { fields: ['emitter_id'] }],
};
