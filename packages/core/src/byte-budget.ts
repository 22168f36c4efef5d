import { createLinkedList } from './linked-list.ts';

/**
 * Bytes that a process may hold for one purpose, shared fairly between owners. An owner that holds bytes gets more only if
 * at least as many bytes as it then holds stay free, so a single owner gets at most half. An amount above half of the total
 * counts as half: otherwise it would never be granted.
 */
export interface ByteBudget {
  readonly total: number;
  /** May exceed the total, since larger amounts count as half of it. */
  readonly used: number;
  /** @param owner undefined: not shared between owners @returns a function that gives them back; undefined: no room */
  tryTake(bytes: number, owner?: string): (() => void) | undefined;
  /**
   * Waits for room. Requests are served in their order, but small ones pass a large one for a while.
   * @returns a function that gives them back; further calls have no effect @throws the reason of the signal
   */
  take(bytes: number, owner?: string, signal?: AbortSignal): Promise<() => void>;
}

interface Request {
  bytes: number;
  owner: string | undefined;
  /** Number of later requests that were served before it. */
  passed: number;
  grant(): void;
}

/** Later requests that may be served before one that does not fit. */
const MAX_PASSED = 256;
/** Requests that are tried after bytes were given back. */
const MAX_TRIED = 64;

/** Bytes that are taken piece by piece and given back together. */
export interface Hold {
  readonly bytes: number;
  /** False: no room. */
  take(bytes: number): boolean;
  release(): void;
}

export function createHold(budget: ByteBudget, owner?: string): Hold {
  let held: (() => void)[] = [];
  let taken = 0;
  return {
    get bytes() {
      return taken;
    },
    take(bytes) {
      const giveBack = budget.tryTake(bytes, owner);
      if (!giveBack) return false;
      held.push(giveBack);
      taken += bytes;
      return true;
    },
    release() {
      for (const giveBack of held) giveBack();
      held = [];
      taken = 0;
    },
  };
}

/** For those whose bytes are not limited. */
export const UNLIMITED: Hold = { bytes: 0, take: () => true, release() {} };

/** @throws RangeError when `total` is not a positive integer */
export function createByteBudget(total: number): ByteBudget {
  if (!Number.isSafeInteger(total) || total < 1) {
    throw new RangeError(`The total must be a positive integer, not ${total}.`);
  }
  const owners = new Map<string, number>();
  const queue = createLinkedList<Request>();
  /** Number of waiting requests by owner. */
  const waiting = new Map<string, number>();
  let used = 0;

  const heldBy = (owner: string | undefined) => (owner === undefined ? 0 : (owners.get(owner) ?? 0));
  function fits(bytes: number, owner: string | undefined): boolean {
    const counted = Math.min(bytes, total / 2);
    const held = heldBy(owner);
    return (held === 0 ? counted : held + 2 * counted) <= total - used;
  }

  function add(bytes: number, owner: string | undefined): void {
    used += bytes;
    if (owner === undefined) return;
    const held = heldBy(owner) + bytes;
    if (held > 0) owners.set(owner, held);
    else owners.delete(owner);
  }

  function taken(bytes: number, owner: string | undefined): () => void {
    add(bytes, owner);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      add(-bytes, owner);
      serve();
    };
  }

  function serve(): void {
    const skipped: Request[] = [];
    /** Owners whose oldest request does not fit: their later ones do not pass it. */
    const blocked = new Set<string>();
    let tried = 0;
    for (const request of queue) {
      const { bytes, owner } = request;
      if (owner !== undefined && blocked.has(owner)) continue;
      if (fits(bytes, owner)) {
        for (const one of skipped) one.passed += 1;
        request.grant();
        continue;
      }
      if (owner !== undefined) blocked.add(owner);
      // An owner over its share does not hold back others.
      if (heldBy(owner) === 0) {
        if (request.passed >= MAX_PASSED) return;
        skipped.push(request);
      }
      tried += 1;
      if (tried >= MAX_TRIED) return;
    }
  }

  /** The oldest request has been passed too often. */
  const isClosed = () =>
    queue.first !== undefined && queue.first.passed >= MAX_PASSED && heldBy(queue.first.owner) === 0;

  function tryTake(bytes: number, owner?: string): (() => void) | undefined {
    if (isClosed() || (owner !== undefined && waiting.has(owner)) || !fits(bytes, owner)) return undefined;
    if (queue.first && heldBy(queue.first.owner) === 0) queue.first.passed += 1;
    return taken(bytes, owner);
  }

  return {
    total,
    get used() {
      return used;
    },
    tryTake,
    take(bytes, owner, signal) {
      if (signal?.aborted) return Promise.reject(signal.reason);
      const now = tryTake(bytes, owner);
      if (now) return Promise.resolve(now);
      return new Promise((resolve, reject) => {
        const abort = () => {
          leave();
          reject(signal?.reason);
          serve();
        };
        const grant = () => {
          leave();
          signal?.removeEventListener('abort', abort);
          resolve(taken(bytes, owner));
        };
        const remove = queue.append({ bytes, owner, passed: 0, grant });
        if (owner !== undefined) waiting.set(owner, (waiting.get(owner) ?? 0) + 1);
        const leave = () => {
          remove();
          const others = owner === undefined ? 0 : waiting.get(owner)! - 1;
          if (owner !== undefined && others > 0) waiting.set(owner, others);
          else if (owner !== undefined) waiting.delete(owner);
        };
        signal?.addEventListener('abort', abort, { once: true });
      });
    },
  };
}
