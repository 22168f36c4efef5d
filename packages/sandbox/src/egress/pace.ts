/**
 * Shares the time of the relay between owners: in one turn of the event loop, the connections of an owner pass on a
 * limited number of bytes. Those that would pass on more pause, and continue in order in later turns.
 */
export interface Pace {
  /**
   * Counts bytes that a connection of this owner passes on.
   * @param resume called once, later, if the connection has to pause
   * @returns whether it has to
   */
  pass(owner: string, bytes: number, resume: () => void): boolean;
}

/** Per owner and turn; it takes about a quarter of a millisecond. */
const TURN_BYTES = 128 * 1024;
/** Bytes that a connection reads at a time. */
const CHUNK_BYTES = 64 * 1024;
/** A chunk takes at least as long as one of this size. */
const MIN_CHUNK_BYTES = 2 * 1024;

interface Owner {
  bytes: number;
  paused: (() => void)[];
}

export function createPace(turnBytes = TURN_BYTES): Pace {
  const maxResumed = Math.max(1, Math.floor(turnBytes / CHUNK_BYTES));
  const owners = new Map<string, Owner>();
  let scheduled = false;

  function schedule(): void {
    if (scheduled) return;
    scheduled = true;
    setImmediate(beginTurn);
  }

  function beginTurn(): void {
    scheduled = false;
    for (const [id, owner] of owners) {
      owner.bytes = 0;
      if (owner.paused.length === 0) owners.delete(id);
      for (const resume of owner.paused.splice(0, maxResumed)) resume();
    }
    if (owners.size > 0) schedule();
  }

  return {
    pass(id, bytes, resume) {
      const owner = owners.get(id) ?? { bytes: 0, paused: [] };
      owners.set(id, owner);
      owner.bytes += Math.max(bytes, MIN_CHUNK_BYTES);
      schedule();
      if (owner.bytes < turnBytes) return false;
      owner.paused.push(resume);
      return true;
    },
  };
}
