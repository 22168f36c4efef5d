import { createLinkedList } from '@wellspring/core/linked-list';
import type { WaitingJob } from './job-source.ts';

/**
 * Waiting jobs in memory: one queue per ordering key. Jobs of a key keep their order, one batch of a key is out at a
 * time, and the keys take turns. No I/O.
 */

export interface KeyQueue<J extends WaitingJob> {
  readonly key: string;
  waiting: J[];
  /** Holds, batches that are out and have not let the next one start, and running backoffs: no batch starts before it is 0. */
  held: number;
  /** Batches that are out. */
  out: number;
  /** This many jobs go out in batches of one, so that a failure counts against the job that caused it. */
  single: number;
  /** performance.now() at which the wait for the admission began; undefined if it does not wait. */
  admissionSince: number | undefined;
  /** Takes it out of the turn; undefined if it is not in the turn. */
  leave: (() => void) | undefined;
}

export interface KeyQueues<J extends WaitingJob> {
  add(job: J): void;
  /** The next key in turn, marked as held. */
  next(): KeyQueue<J> | undefined;
  /** Bytes of the next batch: of the first job, and of further ones within the limits. */
  sizeOf(queue: KeyQueue<J>, batch: number, maxBytes: number): number;
  /** Removes the next batch of a held queue; none when they were withdrawn. */
  take(queue: KeyQueue<J>, batch: number, maxBytes: number): J[];
  /** Returns jobs that were out to the front, in this order, and holds the queue. */
  giveBack(queue: KeyQueue<J>, jobs: readonly J[]): void;
  /** No batch of the key starts until its queue is released. */
  hold(key: string): KeyQueue<J>;
  /** Undoes one hold; without another one, the next batch may start. */
  release(queue: KeyQueue<J>): void;
  /** A batch is no longer out. */
  end(queue: KeyQueue<J>): void;
  /** Removes chosen waiting jobs; jobs that are out are not affected. */
  withdraw(isChosen: (job: J) => boolean): J[];
  get(key: string): KeyQueue<J> | undefined;
}

/** After this many attempts of its first job, a batch is split into single jobs. */
const SINGLE_AFTER_ATTEMPTS = 5;

export function createKeyQueues<J extends WaitingJob>(): KeyQueues<J> {
  const queues = new Map<string, KeyQueue<J>>();
  /** Keys with a batch to hand out, in their order. */
  const turn = createLinkedList<KeyQueue<J>>();

  function queueOf(key: string): KeyQueue<J> {
    let queue = queues.get(key);
    if (!queue) {
      queue = { key, waiting: [], held: 0, out: 0, single: 0, admissionSince: undefined, leave: undefined };
      queues.set(key, queue);
    }
    return queue;
  }

  function leave(queue: KeyQueue<J>): void {
    queue.leave?.();
    queue.leave = undefined;
  }

  function reschedule(queue: KeyQueue<J>): void {
    if (queue.held > 0) return;
    if (queue.waiting.length > 0) queue.leave ??= turn.append(queue);
    else {
      leave(queue);
      if (queue.out === 0) queues.delete(queue.key);
    }
  }

  /** Number and bytes of the jobs of the next batch. */
  function nextBatch({ waiting, single }: KeyQueue<J>, batch: number, maxBytes: number) {
    const max = Math.min(single > 0 ? 1 : batch, waiting.length);
    let [count, bytes] = [0, 0];
    for (; count < max; count += 1) {
      const more = waiting[count]!.bytes;
      if (count > 0 && bytes + more > maxBytes) break;
      bytes += more;
    }
    return { count, bytes };
  }

  return {
    add(job) {
      const queue = queueOf(job.key);
      queue.waiting.push(job);
      reschedule(queue);
    },
    next() {
      const queue = turn.first;
      if (!queue) return undefined;
      leave(queue);
      queue.held += 1;
      queue.out += 1;
      return queue;
    },
    sizeOf: (queue, batch, maxBytes) => nextBatch(queue, batch, maxBytes).bytes,
    take(queue, batch, maxBytes) {
      const { count } = nextBatch(queue, batch, maxBytes);
      queue.single = Math.max(0, queue.single - 1);
      return queue.waiting.splice(0, count);
    },
    giveBack(queue, jobs) {
      queue.held += 1;
      leave(queue);
      queue.waiting.unshift(...jobs);
      const [first] = jobs;
      const isSplit = first && (first.attempts >= SINGLE_AFTER_ATTEMPTS || jobs.some(({ alone }) => alone));
      if (queue.single > 0 || isSplit) queue.single += jobs.length;
    },
    hold(key) {
      const queue = queueOf(key);
      queue.held += 1;
      leave(queue);
      return queue;
    },
    release(queue) {
      queue.held -= 1;
      reschedule(queue);
    },
    end(queue) {
      queue.out -= 1;
      reschedule(queue);
    },
    withdraw: (isChosen) =>
      [...queues.values()].flatMap((queue) => {
        const { waiting } = queue;
        queue.waiting = waiting.filter((job) => !isChosen(job));
        reschedule(queue);
        return waiting.filter(isChosen);
      }),
    get: (key) => queues.get(key),
  };
}
