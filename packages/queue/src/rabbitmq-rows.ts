import type { CollectionDefinition } from '@wellspring/store/port';
import type { DeadLetter } from './port.ts';

/** A job that left the broker before it was done, since its key is slow. */
export interface InboxRow {
  /** That of the job. */
  id: string;
  /** Queue and number, such as `runs.7`. */
  partition: string;
  key: string;
  /** Rises with the order within the partition. */
  seq: number;
  payload: string;
  published_at: number;
  redelivered?: true;
}

export const inbox: CollectionDefinition<InboxRow> = {
  name: 'queue_inbox',
  indexes: [{ fields: ['partition', 'key', 'seq'] }],
  texts: ['payload'],
};

/** Failures that were counted against a job which is still there. */
export interface AttemptsRow {
  /** That of the job. */
  id: string;
  attempts: number;
}

export const attempts: CollectionDefinition<AttemptsRow> = { name: 'queue_attempts', indexes: [] };

/** Until the message of this id comes by, messages of the key are dropped. */
export interface PurgeRow {
  id: string;
  partition: string;
  key: string;
}

export const purges: CollectionDefinition<PurgeRow> = {
  name: 'queue_purges',
  indexes: [{ fields: ['partition'] }],
};

export interface DeadLetterRow extends DeadLetter {
  /** Id of the job: whatever happens, it is among the dead once. */
  job: string;
}

export const deadLetterRows: CollectionDefinition<DeadLetterRow> = {
  name: 'queue_dead_letters',
  indexes: [{ fields: ['job'], unique: true }],
  texts: ['payload'],
};

/** What the processes of an installation have to agree on. */
export interface LayoutRow {
  id: 'layout';
  partitions: number;
}

export const layout: CollectionDefinition<LayoutRow> = { name: 'queue_layout', indexes: [] };
