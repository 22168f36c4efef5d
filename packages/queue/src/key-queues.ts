/**
 * Waiting jobs in memory: one queue per ordering key. Jobs of a key keep their order, one batch of a key is out at a
 * time, and the keys take turns. No I/O.
 */

export interface Entry {
  /** Ascending in order of publication. */
  seq: number;
  key: string;
  attempts: number;
  /** Failures that do not count as attempts; they only determine the backoff. */
  uncounted?: number;
  /** It has to wait, others before it need not: they go out one by one. */
  alone?: true;
  /** Epoch ms. */
  publishedAt: number;
  /** undefined: read from the database when it is needed. */
  payload: string | undefined;
}

export interface KeyQueue<E extends Entry = Entry> {
  readonly key: string;
  /** Valid from `head` on. */
  waiting: E[];
  head: number;
  /** Batches that are out and have not let the next one start, and running backoffs: no batch starts before it is 0. */
  held: number;
  /** Batches that are out. */
  out: number;
  /** This many jobs go out in batches of one, so that a failure counts against the job that caused it. */
  single: number;
  /** performance.now() at which the wait for the admission began; undefined: not waiting. */
  admissionSince: number | undefined;
}

export interface KeyQueues<E extends Entry = Entry> {
  add(entry: E): void;
  /** The next key in turn, marked as held. */
  next(): KeyQueue<E> | undefined;
  /** Removes the first entries of a held queue; none when they were purged. */
  take(queue: KeyQueue<E>, batch: number): E[];
  /** Entries that were out are done. */
  settle(count: number): void;
  /** Returns entries that were out to the front, in this order, and holds the queue. */
  giveBack(queue: KeyQueue<E>, entries: readonly E[]): void;
  /** Undoes one hold; without another one, the next batch may start. */
  release(queue: KeyQueue<E>): void;
  /** A batch is no longer out. */
  end(queue: KeyQueue<E>): void;
  /** Removes chosen waiting entries; entries that are out are not affected. */
  purge(key: string, chosen: (entry: E) => boolean): E[];
  keys(): Iterable<string>;
  get(key: string): KeyQueue<E> | undefined;
  /** Number of entries that wait or are out. */
  readonly size: number;
}

/** The array is compacted after this many taken entries. */
const COMPACT_AFTER = 1024;
/** After this many attempts of its first job, a batch is split into single jobs. */
const SINGLE_AFTER_ATTEMPTS = 5;

export function createKeyQueues<E extends Entry = Entry>(): KeyQueues<E> {
  const queues = new Map<string, KeyQueue<E>>();
  /** Keys with a batch to hand out, in their order. */
  const turn = new Set<string>();
  let size = 0;

  function reschedule(queue: KeyQueue<E>): void {
    if (queue.held > 0) return;
    if (queue.head < queue.waiting.length) turn.add(queue.key);
    else {
      turn.delete(queue.key);
      if (queue.out === 0) queues.delete(queue.key);
    }
  }

  return {
    add(entry) {
      let queue = queues.get(entry.key);
      if (!queue) {
        queue = {
          key: entry.key,
          waiting: [],
          head: 0,
          held: 0,
          out: 0,
          single: 0,
          admissionSince: undefined,
        };
        queues.set(entry.key, queue);
      }
      queue.waiting.push(entry);
      size += 1;
      reschedule(queue);
    },
    next() {
      const [key] = turn;
      if (key === undefined) return undefined;
      turn.delete(key);
      const queue = queues.get(key)!;
      queue.held += 1;
      queue.out += 1;
      return queue;
    },
    take(queue, batch) {
      const entries = queue.waiting.slice(queue.head, queue.head + (queue.single > 0 ? 1 : batch));
      queue.single = Math.max(0, queue.single - 1);
      queue.head += entries.length;
      if (queue.head >= COMPACT_AFTER || queue.head === queue.waiting.length) {
        queue.waiting = queue.waiting.slice(queue.head);
        queue.head = 0;
      }
      return entries;
    },
    settle(count) {
      size -= count;
    },
    giveBack(queue, entries) {
      queue.held += 1;
      turn.delete(queue.key);
      queue.waiting = [...entries, ...queue.waiting.slice(queue.head)];
      queue.head = 0;
      const [first] = entries;
      const isSplit =
        first && (first.attempts >= SINGLE_AFTER_ATTEMPTS || entries.some(({ alone }) => alone));
      if (queue.single > 0 || isSplit) queue.single += entries.length;
    },
    release(queue) {
      queue.held -= 1;
      reschedule(queue);
    },
    end(queue) {
      queue.out -= 1;
      reschedule(queue);
    },
    purge(key, chosen) {
      const queue = queues.get(key);
      if (!queue) return [];
      const waiting = queue.waiting.slice(queue.head);
      const dropped = waiting.filter(chosen);
      queue.waiting = waiting.filter((entry) => !chosen(entry));
      queue.head = 0;
      size -= dropped.length;
      reschedule(queue);
      return dropped;
    },
    keys: () => queues.keys(),
    get: (key) => queues.get(key),
    get size() {
      return size;
    },
  };
}
