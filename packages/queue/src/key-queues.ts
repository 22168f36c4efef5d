import { createLinkedList } from '@wellspring/core/linked-list';

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
  /** Of the payload; undefined: not counted. */
  bytes?: number;
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
  /** Takes it out of the turn; undefined: it is not in it. */
  leave: (() => void) | undefined;
}

export interface KeyQueues<E extends Entry = Entry> {
  add(entry: E): void;
  /** The next key in turn, marked as held. */
  next(): KeyQueue<E> | undefined;
  /** Bytes of the next batch: of the first entry, and of further ones within the limits. */
  sizeOf(queue: KeyQueue<E>, batch: number, maxBytes?: number): number;
  /** Removes the next batch of a held queue; none when they were purged. */
  take(queue: KeyQueue<E>, batch: number, maxBytes?: number): E[];
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
}

/** The array is compacted after this many taken entries. */
const COMPACT_AFTER = 1024;
/** After this many attempts of its first job, a batch is split into single jobs. */
const SINGLE_AFTER_ATTEMPTS = 5;

export function createKeyQueues<E extends Entry = Entry>(): KeyQueues<E> {
  const queues = new Map<string, KeyQueue<E>>();
  /** Keys with a batch to hand out, in their order. */
  const turn = createLinkedList<KeyQueue<E>>();

  function leave(queue: KeyQueue<E>): void {
    queue.leave?.();
    queue.leave = undefined;
  }

  function reschedule(queue: KeyQueue<E>): void {
    if (queue.held > 0) return;
    if (queue.head < queue.waiting.length) queue.leave ??= turn.append(queue);
    else {
      leave(queue);
      if (queue.out === 0) queues.delete(queue.key);
    }
  }

  /** Number and bytes of the entries of the next batch. */
  function nextBatch({ waiting, head, single }: KeyQueue<E>, batch: number, maxBytes: number) {
    const max = single > 0 ? 1 : batch;
    let [count, bytes] = [0, 0];
    for (; count < max && head + count < waiting.length; count += 1) {
      const more = waiting[head + count]!.bytes ?? 0;
      if (count > 0 && bytes + more > maxBytes) break;
      bytes += more;
    }
    return { count, bytes };
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
          leave: undefined,
        };
        queues.set(entry.key, queue);
      }
      queue.waiting.push(entry);
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
    sizeOf: (queue, batch, maxBytes = Number.POSITIVE_INFINITY) => nextBatch(queue, batch, maxBytes).bytes,
    take(queue, batch, maxBytes = Number.POSITIVE_INFINITY) {
      const { count } = nextBatch(queue, batch, maxBytes);
      const entries = queue.waiting.slice(queue.head, queue.head + count);
      queue.single = Math.max(0, queue.single - 1);
      queue.head += entries.length;
      if (queue.head >= COMPACT_AFTER || queue.head === queue.waiting.length) {
        queue.waiting = queue.waiting.slice(queue.head);
        queue.head = 0;
      }
      return entries;
    },
    giveBack(queue, entries) {
      queue.held += 1;
      leave(queue);
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
      reschedule(queue);
      return dropped;
    },
    keys: () => queues.keys(),
    get: (key) => queues.get(key),
  };
}
