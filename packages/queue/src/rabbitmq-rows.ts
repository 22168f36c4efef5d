import type { CollectionDefinition } from '@wellspring/store/port';
import type { DeadLetter, QueueName } from './port.ts';

/** A job that left the broker before it was done, since its source is slow. */
export interface InboxRow {
  /** The id of the message. */
  id: string;
  /** Queue and number, such as `runs.7`. */
  partition: string;
  /** Rises with the order within the partition. */
  seq: number;
  key: string;
  payload: string;
  published_at: number;
}

export const inbox: CollectionDefinition<InboxRow> = {
  name: 'queue_inbox',
  indexes: [{ fields: ['partition', 'seq'] }],
  texts: ['payload'],
};

/** A job whose time has not come. */
export interface DelayedRow {
  id: string;
  queue: QueueName;
  key: string;
  payload: string;
  /** Epoch ms; later while somebody publishes it. */
  due_at: number;
}

export const delayed: CollectionDefinition<DelayedRow> = {
  name: 'queue_delayed',
  indexes: [{ fields: ['queue', 'due_at'] }, { fields: ['queue', 'key'] }],
  texts: ['payload'],
};

/** Failures that were counted against a message which is still there. */
export interface AttemptsRow {
  /** The id of the message. */
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

export type DeadLetterRow = DeadLetter;

export const deadLetterRows: CollectionDefinition<DeadLetterRow> = {
  name: 'queue_dead_letters',
  indexes: [],
  texts: ['payload'],
};
