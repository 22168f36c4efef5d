import type { Channel } from '@wellspring/amqp/channel';
import type { Amqp } from '@wellspring/amqp/client';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import type { Store } from '@wellspring/store/port';
import type { Dispatcher } from '../dispatcher.ts';
import type { Job } from '../port.ts';
import type { ReceivedJob } from './received-job.ts';
import type { ReceivedJobs } from './received-jobs.ts';

/** Payloads of the messages in memory, of all partitions of a queue. */
export interface PartitionMemory {
  readonly usage: 'low' | 'high' | 'exceeded';
  /** Bytes for the window of a partition with large messages; Infinity if there is room for all windows. */
  readonly share: number;
}

export interface PartitionOptions {
  amqp: Amqp;
  store: Store;
  clock: Clock;
  log: Log;
  dispatcher: Dispatcher<ReceivedJob>;
  memory: PartitionMemory;
  /** Name of the broker's queue. */
  queue: string;
  declare(channel: Channel): Promise<void>;
  /** Name in rows, e.g. `runs.7`. */
  name: string;
  epoch: number;
  /** False while the lease is not certain: nothing is started, and the store is neither read nor written. */
  mayStart(): boolean;
}

export interface Partition {
  readonly epoch: number;
  /** Resolves when messages arrive for the first time. */
  readonly opened: Promise<void>;
  /**
   * Jobs of the key that are out may have further effects: the lease is neither lost nor uncertain, nor are jobs of the
   * key ended because it is being released.
   */
  isHeld(key: string): boolean;
  readonly received: Pick<ReceivedJobs, 'messages' | 'bytes' | 'usualBytes'>;
  /** The jobs go to a handler; none when the lease is lost first. */
  start(jobs: readonly ReceivedJob[]): Promise<Job[]>;
  /** The jobs are done or dead: acknowledges their messages and removes their rows. */
  done(jobs: readonly ReceivedJob[]): void;
  /** The jobs have failed. @returns those that wait again here; the others are redelivered */
  giveBack(jobs: readonly ReceivedJob[]): ReceivedJob[];
  refill(key: string): void;
  /** Finds overflow rows that a former owner wrote late. */
  findOverflow(): Promise<void>;
  /** Resolves when no job is out and all acknowledgements are sent. @param urgent aborted: nothing more is started */
  release(urgent: AbortSignal): Promise<void>;
  /** The lease is lost: drops everything, without waiting for jobs that are out. */
  lose(): void;
}
