/**
 * Waiting jobs in memory: a lane per key, in which jobs keep their order and of which one batch is out at a time; the
 * lanes take turns. A job without key is a lane of its own. No I/O.
 */

export interface Entry {
  /** Rises with publication. */
  seq: number;
  key: string | undefined;
  attempts: number;
  /** Epoch ms. */
  publishedAt: number;
  /** Kept while there is room; read again otherwise. */
  payload: string | undefined;
}

export interface Lane {
  name: string;
  entries: Entry[];
  /** A batch is out, or the lane rests after a failure. */
  held: boolean;
}

export interface Lanes {
  add(entry: Entry): void;
  /** Gives a lane and its first entries, and holds it. */
  take(batch: number): { lane: Lane; entries: Entry[] } | undefined;
  /** Takes the entries that are done (by seq) out of the lane. */
  settle(lane: Lane, done: ReadonlySet<number>): void;
  /** Lets the next batch of a lane out. */
  release(lane: Lane): void;
  /** Drops what waits in a lane; what is out stays with whoever has it. */
  purge(name: string): Entry[];
  names(): Iterable<string>;
  readonly size: number;
}

export const laneName = (entry: Pick<Entry, 'key' | 'seq'>): string => entry.key ?? `\0${entry.seq}`;

export function createLanes(): Lanes {
  const lanes = new Map<string, Lane>();
  // Names in the order in which their lanes come next; a set, so that a lane stands in it once.
  const turn = new Set<string>();
  let size = 0;

  const offer = (lane: Lane) => {
    if (lane.held) return;
    if (lane.entries.length > 0) turn.add(lane.name);
    else {
      turn.delete(lane.name);
      lanes.delete(lane.name);
    }
  };

  return {
    add(entry) {
      const name = laneName(entry);
      let lane = lanes.get(name);
      if (!lane) {
        lane = { name, entries: [], held: false };
        lanes.set(name, lane);
      }
      lane.entries.push(entry);
      size += 1;
      offer(lane);
    },
    take(batch) {
      const [name] = turn;
      if (name === undefined) return undefined;
      turn.delete(name);
      const lane = lanes.get(name)!;
      lane.held = true;
      return { lane, entries: lane.entries.slice(0, batch) };
    },
    settle(lane, done) {
      const left = lane.entries.filter(({ seq }) => !done.has(seq));
      size -= lane.entries.length - left.length;
      lane.entries = left;
    },
    release(lane) {
      lane.held = false;
      offer(lane);
    },
    purge(name) {
      const lane = lanes.get(name);
      if (!lane) return [];
      const dropped = lane.entries;
      size -= dropped.length;
      lane.entries = [];
      offer(lane);
      return dropped;
    },
    names: () => lanes.keys(),
    get size() {
      return size;
    },
  };
}
