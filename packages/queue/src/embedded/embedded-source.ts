import type { ByteBudget } from '@wellspring/core/byte-budget';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import type { Dispatcher } from '../dispatcher.ts';
import type { JobSource, WaitingJob } from '../job-source.ts';
import type { Job, QueueName } from '../port.ts';
import type { FinishedJobs } from './finished-jobs.ts';
import type { JobRow, JobTable, StoredJob } from './job-table.ts';

const READ_RETRY_DELAY_MS = 1_000;
/** Jobs of a key in memory; the others are rows only. */
const MAX_IN_MEMORY_PER_KEY = 256;
/** Of all keys; each key has at least one. */
const MAX_IN_MEMORY = 50_000;
/** Rows of a key that are read at a time. */
const PAGE = 128;
/** When too many are in memory. */
const MIN_PAGE = 8;

export interface EmbeddedJob extends WaitingJob {
  seq: number;
  /** Gives back the bytes of a payload in memory. */
  forget: (() => void) | undefined;
}

/** A key with jobs in memory. */
interface Window {
  /** Number of jobs in memory, those that are out included. */
  jobs: number;
  /** `seq` of the last one. */
  last: number;
  /** There may be rows behind it. */
  hasMore: boolean;
}

export interface EmbeddedSourceOptions {
  queue: QueueName;
  table: JobTable;
  finished: Pick<FinishedJobs, 'add'>;
  /** Of payloads of waiting jobs; the others are read when they are handed out. */
  waiting: ByteBudget;
  clock: Clock;
  log: Log;
  closing: AbortSignal;
}

/**
 * The jobs of one queue in SQLite. In memory are the first ones of each key; their number does not depend on the backlog.
 * Payloads are read when their jobs are handed out, unless they have just been published.
 */
export interface EmbeddedSource extends JobSource<EmbeddedJob> {
  /** Number of waiting jobs and of those that are out. */
  readonly size: number;
  /** Offers the jobs that were there at the start. */
  open(dispatcher: Dispatcher<EmbeddedJob>): void;
  /** Jobs that have just become durable, in the order of their `seq`. @param redriven from the dead letters */
  stored(jobs: readonly StoredJob[], redriven?: boolean): void;
  /** Jobs whose write was rejected may have become durable all the same: offers them. */
  recovered(): void;
}

export function createEmbeddedSource(options: EmbeddedSourceOptions): EmbeddedSource {
  const { queue, table, finished, waiting, clock, log, closing } = options;
  const windows = new Map<string, Window>();
  /** `seq` of jobs from the dead letters. After a restart, all jobs are flagged. */
  const redriven = new Set<number>();
  let dispatcher: Dispatcher<EmbeddedJob>;
  /** Rows up to this one are durable; later ones may be visible before they are. */
  let durableUpTo = table.lastAtStart;
  let size = 0;
  let inMemory = 0;

  function offer(window: Window, row: JobRow, payload?: string): void {
    const { seq, key, attempts, published_at, bytes } = row;
    window.jobs += 1;
    window.last = seq;
    inMemory += 1;
    const forget = payload === undefined ? undefined : waiting.tryTake(bytes);
    dispatcher.offer({
      id: String(seq),
      seq,
      key,
      attempts,
      publishedAt: published_at,
      bytes,
      payload: forget && payload,
      forget,
      // A former process may have handed it out. This is not stored: it would cost a write per job.
      redelivered: seq <= table.lastAtStart || attempts > 0 || redriven.has(seq) ? true : undefined,
    });
  }

  /** Adds a job that has just become durable. */
  function add(row: JobRow, payload?: string): void {
    const { seq, key } = row;
    durableUpTo = Math.max(durableUpTo, seq);
    size += 1;
    let window = windows.get(key);
    if (!window) {
      window = { jobs: 0, last: 0, hasMore: false };
      windows.set(key, window);
    }
    // Loaded with the page of another job.
    if (seq <= window.last) return;
    const isFull =
      window.jobs > 0 && (inMemory >= MAX_IN_MEMORY || dispatcher.waiting(key) >= MAX_IN_MEMORY_PER_KEY);
    if (isFull) window.hasMore = true;
    if (!window.hasMore) offer(window, row, payload);
  }

  function load(key: string, window: Window): void {
    const limit = inMemory < MAX_IN_MEMORY ? PAGE : MIN_PAGE;
    let rows: JobRow[];
    try {
      rows = table.page(queue, key, window.last, durableUpTo, limit);
    } catch (error) {
      log.error({ queue, error: String(error) }, 'queue.read_failed');
      window.hasMore = true;
      void loadLater(key, window);
      return;
    }
    window.hasMore = rows.length === limit;
    for (const row of rows) offer(window, row);
  }

  async function loadLater(key: string, window: Window): Promise<void> {
    await clock.sleep(READ_RETRY_DELAY_MS, closing);
    if (closing.aborted || windows.get(key) !== window || !window.hasMore) return;
    load(key, window);
    if (window.jobs === 0 && !window.hasMore) windows.delete(key);
  }

  function dropPayload(job: EmbeddedJob): void {
    job.forget?.();
    job.forget = undefined;
    job.payload = undefined;
  }

  function gone(jobs: readonly EmbeddedJob[]): void {
    for (const job of jobs) {
      dropPayload(job);
      redriven.delete(job.seq);
      inMemory -= 1;
      size -= 1;
      const window = windows.get(job.key)!;
      window.jobs -= 1;
      if (window.jobs > 0) continue;
      if (window.hasMore) load(job.key, window);
      if (window.jobs === 0 && !window.hasMore) windows.delete(job.key);
    }
  }

  return {
    get size() {
      return size;
    },
    open(opened) {
      dispatcher = opened;
      size = table.count(queue);
      for (const row of table.firstOfKeys(queue)) {
        const window = { jobs: 0, last: 0, hasMore: true };
        windows.set(row.key, window);
        offer(window, row);
      }
    },
    stored(jobs, areRedriven = false) {
      for (const { seq, key, payload, published_at } of jobs) {
        if (areRedriven) redriven.add(seq);
        add({ seq, key, attempts: 0, published_at, bytes: payload.length }, payload);
      }
    },
    recovered() {
      // Jobs of writes that succeeded have been added.
      for (const row of table.after(queue, durableUpTo)) add(row);
    },
    start(jobs) {
      return jobs.map((job): Job => {
        const { id, seq, key, attempts, publishedAt, redelivered } = job;
        const payload = job.payload ?? table.payload(seq);
        dropPayload(job);
        const flag = redelivered && { redelivered };
        return { id, key, payload, attempt: attempts + 1, published_at: publishedAt, epoch: 1, ...flag };
      });
    },
    leaseOf: () => () => true,
    taken(key) {
      const window = windows.get(key);
      const isLow = dispatcher.waiting(key) < (inMemory < MAX_IN_MEMORY ? PAGE / 2 : 1);
      if (window?.hasMore && isLow) load(key, window);
    },
    done(jobs) {
      gone(jobs);
      finished.add(jobs.map(({ seq }) => seq));
    },
    giveBack: (jobs) => jobs,
    countAttempt: async ({ seq, attempts }) => {
      await table.setAttempts(seq, attempts + 1);
    },
    async addDeadLetter(job, reason) {
      await table.addDeadLetter(job.seq, reason, clock.now());
      gone([job]);
    },
  };
}
