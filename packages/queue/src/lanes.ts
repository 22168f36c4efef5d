/**
 * Waiting jobs in memory: a lane per key, in which jobs keep their order and of which one batch is out at a time; the
 * lanes take turns. No I/O.
 */

export interface Entry {
  /** Rises with publication. */
  seq: number;
  key: string;
  attempts: number;
  /** Failures that could not be counted, since nothing could be written: they only make it rest for longer. */
  uncounted?: number;
  /** Epoch ms. */
  publishedAt: number;
  /** Kept while there is room; read again otherwise. */
  payload: string | undefined;
}

export interface Lane<E extends Entry = Entry> {
  readonly name: string;
  /** What waits, from `head` on. */
  waiting: E[];
  head: number;
  /** A batch is out, or the lane rests after a failure. */
  held: boolean;
  /** So many of the first go out alone, so that a failure is that of the job which fails. */
  alone: number;
  /** performance.now() since when it waits for its admission, see ConsumeOptions; undefined: it does not. */
  admission: number | undefined;
}

export interface Lanes<E extends Entry = Entry> {
  add(entry: E): void;
  /** Gives the lane whose turn it is, and holds it. */
  next(): Lane<E> | undefined;
  /** Takes the first entries of a lane that is held; none when they were purged. */
  take(lane: Lane<E>, batch: number): E[];
  /** Says that entries that were out are done. */
  settle(count: number): void;
  /** Puts entries that were out back to the front, in this order. */
  giveBack(lane: Lane<E>, entries: readonly E[]): void;
  /** Lets the next batch of a lane out. */
  release(lane: Lane<E>): void;
  /** Drops what waits in a lane and is chosen; what is out stays with whoever has it. */
  purge(name: string, chosen: (entry: E) => boolean): E[];
  names(): Iterable<string>;
  get(name: string): Lane<E> | undefined;
  /** Entries that wait or are out. */
  readonly size: number;
}

/** Taken entries are cut off when this many have gathered. */
const CUT = 1024;
/** A batch whose first job has so many failures against it may have failed for another one. */
const ALONE_AFTER = 5;

export function createLanes<E extends Entry = Entry>(): Lanes<E> {
  const lanes = new Map<string, Lane<E>>();
  // Names in the order in which their lanes come next; a set, so that a lane stands in it once.
  const turn = new Set<string>();
  let size = 0;

  function offer(lane: Lane<E>): void {
    if (lane.held) return;
    if (lane.head < lane.waiting.length) turn.add(lane.name);
    else {
      turn.delete(lane.name);
      lanes.delete(lane.name);
    }
  }

  return {
    add(entry) {
      let lane = lanes.get(entry.key);
      if (!lane) {
        lane = { name: entry.key, waiting: [], head: 0, held: false, alone: 0, admission: undefined };
        lanes.set(entry.key, lane);
      }
      lane.waiting.push(entry);
      size += 1;
      offer(lane);
    },
    next() {
      const [name] = turn;
      if (name === undefined) return undefined;
      turn.delete(name);
      const lane = lanes.get(name)!;
      lane.held = true;
      return lane;
    },
    take(lane, batch) {
      const entries = lane.waiting.slice(lane.head, lane.head + (lane.alone > 0 ? 1 : batch));
      lane.alone = Math.max(0, lane.alone - 1);
      lane.head += entries.length;
      if (lane.head >= CUT || lane.head === lane.waiting.length) {
        lane.waiting = lane.waiting.slice(lane.head);
        lane.head = 0;
      }
      return entries;
    },
    settle(count) {
      size -= count;
    },
    giveBack(lane, entries) {
      lane.waiting = [...entries, ...lane.waiting.slice(lane.head)];
      lane.head = 0;
      const [first] = entries;
      if (first && (lane.alone > 0 || first.attempts >= ALONE_AFTER)) lane.alone += entries.length;
    },
    release(lane) {
      lane.held = false;
      offer(lane);
    },
    purge(name, chosen) {
      const lane = lanes.get(name);
      if (!lane) return [];
      const waiting = lane.waiting.slice(lane.head);
      const dropped = waiting.filter(chosen);
      lane.waiting = waiting.filter((entry) => !chosen(entry));
      lane.head = 0;
      size -= dropped.length;
      offer(lane);
      return dropped;
    },
    names: () => lanes.keys(),
    get: (name) => lanes.get(name),
    get size() {
      return size;
    },
  };
}
