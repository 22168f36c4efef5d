import type { CollectionDefinition } from '@wellspring/store/port';
import type { DeadLetter, QueueName } from '../port.ts';

/** An unfinished job of a slow key (see `slowJobsByKey`) that was moved from the broker to the store. */
export interface OverflowRow {
  /** Id of the job. */
  id: string;
  /** Queue and partition, e.g. `runs.7`. */
  partition: string;
  key: string;
  /** Position within the partition; begins with the epoch of the lease (see overflow.ts). */
  seq: number;
  payload: string;
  /** Characters of the payload. */
  bytes: number;
  /** Epoch ms. */
  published_at: number;
  redelivered?: true;
}

export const overflow: CollectionDefinition<OverflowRow> = {
  name: 'queue_overflow',
  indexes: [{ fields: ['partition', 'key', 'seq'] }],
  texts: ['payload'],
};

/** Number of failed executions of an unfinished job. */
export interface AttemptsRow {
  /** Id of the job. */
  id: string;
  attempts: number;
}

export const attempts: CollectionDefinition<AttemptsRow> = { name: 'queue_attempts', indexes: [] };

export interface DeadLetterRow extends DeadLetter {
  /** Id of the job; unique, so that moving the job to the dead letters twice has no effect. */
  job: string;
}

export const deadLetters: CollectionDefinition<DeadLetterRow> = {
  name: 'queue_dead_letters',
  indexes: [{ fields: ['job'], unique: true }],
  texts: ['payload'],
};

/** Shared by all processes on one store; a process with other settings does not start. */
export interface LayoutRow {
  id: 'layout';
  /** Per queue. */
  partitions: number;
  /** Id of the installation, which reserves its vhost. */
  installation?: string;
}

export const layout: CollectionDefinition<LayoutRow> = { name: 'queue_layout', indexes: [] };

/** A process that consumes queues; it renews the row (see session.ts). */
export interface SessionRow {
  /** `<id of the process>/<random text>`: a process whose session was lost begins another one. */
  id: string;
  /** Incremented by each renewal: unchanged for the time of a lease, the session has ended. */
  beat: number;
  /** The queues it consumes, separated by commas. */
  queues: string;
}

export const sessions: CollectionDefinition<SessionRow> = {
  name: 'queue_sessions',
  indexes: [{ fields: ['beat'] }],
};

/** A partition of a queue, and who holds its lease. */
export interface LeaseRow {
  /** Queue and partition, e.g. `runs.7`. */
  id: string;
  queue: QueueName;
  partition: number;
  /** Id of a session; null, or a session without a row: any process may take the partition. */
  holder: string | null;
  /** Fencing token: grows whenever the partition is taken. */
  epoch: number;
}

export const leases: CollectionDefinition<LeaseRow> = {
  name: 'queue_leases',
  indexes: [{ fields: ['queue', 'epoch'] }],
};
