import type { CollectionDefinition } from '@wellspring/store/port';
import type { DeadLetter, QueueName } from '../port.ts';

/** An unfinished job of a slow key that was moved from the broker to the store. */
export interface OverflowRow {
  /** Id of the job. */
  id: string;
  /** Queue and partition, e.g. `runs.7`. */
  partition: string;
  key: string;
  /** Ascending within the partition. */
  seq: number;
  payload: string;
  /** Of the payload. */
  bytes: number;
  published_at: number;
  redelivered?: true;
}

export const overflow: CollectionDefinition<OverflowRow> = {
  name: 'queue_overflow',
  indexes: [{ fields: ['partition', 'key', 'seq'] }],
  texts: ['payload'],
};

/** Failed attempts of an unfinished job. */
export interface AttemptsRow {
  /** Id of the job. */
  id: string;
  attempts: number;
}

export const attempts: CollectionDefinition<AttemptsRow> = { name: 'queue_attempts', indexes: [] };

/** An unfinished purge: messages of the source `key` are dropped until the purge message with this id arrives. */
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
  /** Id of the job; unique, so that moving the job to the dead letters twice has no effect. */
  job: string;
}

export const deadLetterRows: CollectionDefinition<DeadLetterRow> = {
  name: 'queue_dead_letters',
  indexes: [{ fields: ['job'], unique: true }],
  texts: ['payload'],
};

/** Settings that all processes of an installation must share. */
export interface LayoutRow {
  id: 'layout';
  partitions: number;
}

export const layout: CollectionDefinition<LayoutRow> = { name: 'queue_layout', indexes: [] };

/** A process that takes part in the queues; it renews the row (see session.ts). */
export interface SessionRow {
  /** `<member>/<secret>`. */
  id: string;
  /** Incremented by each renewal. */
  beat: number;
  /** The queues it consumes, separated by commas. */
  queues: string;
}

export const sessions: CollectionDefinition<SessionRow> = {
  name: 'queue_sessions',
  indexes: [{ fields: ['beat'] }],
};

/** A partition of a queue and its lease. */
export interface LeaseRow {
  /** E.g. `runs.7`. */
  id: string;
  queue: QueueName;
  partition: number;
  /** Id of a session; another process may take the partition when it is not alive. */
  holder: string | null;
  /** Fencing token: grows whenever the partition is taken. */
  epoch: number;
}

export const leases: CollectionDefinition<LeaseRow> = {
  name: 'queue_leases',
  indexes: [{ fields: ['queue', 'epoch'] }],
};
