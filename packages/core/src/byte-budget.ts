import { createLinkedList, type LinkedList } from './linked-list.ts';

/**
 * Bytes that a process may hold for one purpose, shared fairly between owners. An owner that holds bytes gets more only if
 * afterwards at least as many bytes are free as it holds, so a single owner gets at most half. An amount above half of the
 * total is granted when half of the total is free: otherwise it would never be granted.
 */
export interface ByteBudget {
  readonly total: number;
  /** May exceed the total: an amount above half of it is added in full, and some bytes are counted without room. */
  readonly used: number;
  /**
   * @param owner whose share is checked; without an owner only the free bytes are checked
   * @returns undefined: there is no room
   */
  tryTake(bytes: number, owner?: string): Release | undefined;
  /** Counts bytes that are in memory in any case, also beyond the room: others then find less. */
  count(bytes: number, owner?: string): Release;
  /**
   * Waits for room. Owners are served in turns. A limited number of later requests may overtake one that does not fit, and
   * further ones while it would not fit without them either.
   * @throws the reason of the signal
   */
  take(bytes: number, owner: string, signal?: AbortSignal): Promise<Release>;
}

/** Releases bytes that were taken; further calls have no effect. */
export interface Release {
  (): void;
  /** Releases those beyond `bytes`: an amount that was not known before is taken at its maximum. */
  keep(bytes: number): void;
}

interface Request {
  bytes: number;
  grant(passed: Late | undefined): void;
}

/** Requests that were granted before another one although it had been overtaken by as many as may. */
interface Late {
  /** Those that they still hold. */
  bytes: number;
}

/** The waiting requests of one owner. Only the first is tried: the others wait behind it. */
interface Line {
  owner: string;
  requests: LinkedList<Request>;
  /** Number of later requests that were granted before the first of this line. */
  overtakenBy: number;
  late: Late;
  leaveQueue(): void;
}

/** Later requests that may overtake one that does not fit, even if it would without them. */
const MAX_OVERTAKEN = 256;

/** Bytes that are taken piece by piece and released together. */
export interface Hold {
  readonly bytes: number;
  /** False if there is no room. */
  take(bytes: number): boolean;
  /**
   * Takes what is missing to `bytes`, all as one amount: one above half of the budget is granted only if its owner holds
   * nothing. False if there is no room; then nothing is held.
   */
  grow(bytes: number): boolean;
  /** Takes bytes that are in memory in any case. */
  count(bytes: number): void;
  release(): void;
}

export function createHold(budget: ByteBudget, owner?: string): Hold {
  let releases: (() => void)[] = [];
  let taken = 0;
  const keep = (bytes: number, release: Release | undefined) => {
    if (!release) return false;
    releases.push(release);
    taken += bytes;
    return true;
  };
  const take = (bytes: number) => keep(bytes, budget.tryTake(bytes, owner));
  const release = () => {
    for (const giveBack of releases) giveBack();
    releases = [];
    taken = 0;
  };
  return {
    get bytes() {
      return taken;
    },
    take,
    grow(bytes) {
      if (bytes <= taken) return true;
      release();
      return take(bytes);
    },
    count: (bytes) => void keep(bytes, budget.count(bytes, owner)),
    release,
  };
}

/** For owners whose bytes are not limited. */
export const UNLIMITED: Hold = { bytes: 0, take: () => true, grow: () => true, count() {}, release() {} };

/** @throws RangeError when `total` is not a positive integer */
export function createByteBudget(total: number): ByteBudget {
  if (!Number.isSafeInteger(total) || total < 1) {
    throw new RangeError(`The total must be a positive integer, not ${total}.`);
  }
  /** Bytes of owners that hold any. */
  const held = new Map<string, number>();
  const queue = createLinkedList<Line>();
  const lines = new Map<string, Line>();
  let used = 0;

  const heldBy = (owner: string | undefined) => (owner === undefined ? 0 : (held.get(owner) ?? 0));

  const roomFor = (bytes: number) => Math.min(bytes, total / 2);

  function fits(bytes: number, owner: string | undefined): boolean {
    const needed = roomFor(bytes);
    const before = heldBy(owner);
    return (before === 0 ? needed : before + 2 * needed) <= total - used;
  }

  function add(bytes: number, owner: string | undefined): void {
    used += bytes;
    if (owner === undefined) return;
    const after = heldBy(owner) + bytes;
    if (after > 0) held.set(owner, after);
    else held.delete(owner);
  }

  function admit(bytes: number, owner: string | undefined, passed?: Late): Release {
    add(bytes, owner);
    if (passed) passed.bytes += bytes;
    let left = bytes;
    const keep = (fewer: number) => {
      if (fewer >= left) return;
      add(fewer - left, owner);
      if (passed) passed.bytes += fewer - left;
      left = fewer;
      serve();
    };
    return Object.assign(() => keep(0), { keep });
  }

  function joinLine(owner: string): Line {
    let line = lines.get(owner);
    if (!line) {
      line = { owner, requests: createLinkedList(), overtakenBy: 0, late: { bytes: 0 }, leaveQueue() {} };
      line.leaveQueue = queue.append(line);
      lines.set(owner, line);
    }
    return line;
  }

  /** Moves a line to the end of the queue, or removes it when it is empty. */
  function requeue(line: Line): void {
    const { leaveQueue } = line;
    line.overtakenBy = 0;
    line.late = { bytes: 0 };
    // Before it leaves its place, so that an iteration over the queue reaches the new one.
    if (line.requests.first) line.leaveQueue = queue.append(line);
    else lines.delete(line.owner);
    leaveQueue();
  }

  /** For the bytes of a request that overtakes the line. */
  const lateOf = (line: Line | undefined) =>
    line && line.overtakenBy >= MAX_OVERTAKEN ? line.late : undefined;

  /** No further request may overtake the line: it would fit if those that did so late released their bytes. */
  function holdsBack(line: Line): boolean {
    const late = lateOf(line);
    return late !== undefined && roomFor(line.requests.first!.bytes) <= total - used + late.bytes;
  }

  /** Grants what fits. A request of an owner that already holds bytes does not hold back others. */
  function serve(): void {
    const skipped: Line[] = [];
    for (const line of queue) {
      const request = line.requests.first!;
      if (fits(request.bytes, line.owner)) {
        for (const earlier of skipped) earlier.overtakenBy += 1;
        request.grant(lateOf(skipped[0]));
      } else if (!held.has(line.owner)) {
        if (holdsBack(line)) return;
        skipped.push(line);
      }
    }
  }

  /** The first line that a new request would overtake. */
  function firstOvertaken(): Line | undefined {
    for (const line of queue) if (!held.has(line.owner)) return line;
    return undefined;
  }

  function tryTake(bytes: number, owner?: string): Release | undefined {
    if ((owner !== undefined && lines.has(owner)) || !fits(bytes, owner)) return undefined;
    const overtaken = firstOvertaken();
    if (overtaken) {
      if (holdsBack(overtaken)) return undefined;
      overtaken.overtakenBy += 1;
    }
    return admit(bytes, owner, lateOf(overtaken));
  }

  return {
    total,
    get used() {
      return used;
    },
    tryTake,
    count: (bytes, owner) => admit(bytes, owner),
    take(bytes, owner, signal) {
      if (signal?.aborted) return Promise.reject(signal.reason);
      const release = tryTake(bytes, owner);
      if (release) return Promise.resolve(release);
      return new Promise((resolve, reject) => {
        const line = joinLine(owner);
        const remove = line.requests.append({
          bytes,
          grant(passed) {
            remove();
            requeue(line);
            signal?.removeEventListener('abort', abort);
            resolve(admit(bytes, owner, passed));
          },
        });
        const abort = () => {
          remove();
          if (!line.requests.first) requeue(line);
          reject(signal?.reason);
          serve();
        };
        signal?.addEventListener('abort', abort, { once: true });
      });
    },
  };
}
