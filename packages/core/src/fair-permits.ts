import { createLinkedList, type LinkedList } from './linked-list.ts';

/**
 * A fixed number of permits that are shared fairly between owners. An owner that holds permits gets another one only
 * while it holds fewer than are free (a dynamic threshold): a single owner gets at most half of all, the next one a
 * quarter, and a later one finds some free. An owner without permits gets any free one.
 */
export interface FairPermits {
  /**
   * Waits until the owner may have a permit. A free permit goes to the waiting owner that holds the fewest; the
   * requests of one owner are served in their order.
   * @returns a function that gives the permit back; further calls have no effect
   * @throws the reason of the signal when it is aborted before the permit was granted
   */
  acquire(owner: string, signal?: AbortSignal): Promise<() => void>;
  /** As `acquire`, but without waiting. @returns undefined if the owner may not have a permit now */
  tryAcquire(owner: string): (() => void) | undefined;
  stats(): {
    total: number;
    /** Permits in use. */
    held: number;
    /** Waiting requests. */
    waiting: number;
    /** Owners that hold a permit or wait for one. */
    owners: number;
  };
}

interface Owner {
  id: string;
  held: number;
  requests: LinkedList<() => void>;
  /** Removes it from the list of waiting owners with its number of permits. */
  leave: (() => void) | undefined;
}

/**
 * @param options.maxPerOwner further limit of one owner; permits of an owner that waits for a higher one are granted at
 *   the next release
 * @throws RangeError when `total` is not a positive integer
 */
export function createFairPermits({
  total,
  maxPerOwner = () => total,
}: {
  total: number;
  maxPerOwner?: () => number;
}): FairPermits {
  if (!Number.isSafeInteger(total) || total < 1) {
    throw new RangeError(`The total must be a positive integer, not ${total}.`);
  }
  const owners = new Map<string, Owner>();
  /** Owners that wait, by the number of permits that they hold. An owner above `total / 2` is never eligible. */
  const waitingByHeld = new Map<number, LinkedList<Owner>>();
  let free = total;
  let waiting = 0;

  const mayTake = (held: number) => free > 0 && (held === 0 || held < Math.min(free, maxPerOwner()));

  function ownerOf(id: string): Owner {
    let owner = owners.get(id);
    if (!owner) {
      owner = { id, held: 0, requests: createLinkedList(), leave: undefined };
      owners.set(id, owner);
    }
    return owner;
  }

  /** Lists the owner by its number of permits; removes one without permits and requests. */
  function place(owner: Owner): void {
    owner.leave?.();
    owner.leave = undefined;
    if (owner.requests.size > 0) {
      let list = waitingByHeld.get(owner.held);
      if (!list) {
        list = createLinkedList();
        waitingByHeld.set(owner.held, list);
      }
      owner.leave = list.append(owner);
    } else if (owner.held === 0) owners.delete(owner.id);
  }

  /** The waiting owner with the fewest permits, when it may take one. At most `total / 2` steps. */
  function nextOwner(): Owner | undefined {
    for (let held = 0; mayTake(held); held += 1) {
      const owner = waitingByHeld.get(held)?.first;
      if (owner) return owner;
    }
    return undefined;
  }

  function take(owner: Owner): () => void {
    free -= 1;
    owner.held += 1;
    let released = false;
    return () => {
      if (released) return;
      released = true;
      free += 1;
      owner.held -= 1;
      place(owner);
      serve();
    };
  }

  function serve(): void {
    for (let owner = waiting > 0 ? nextOwner() : undefined; owner; owner = nextOwner())
      owner.requests.first?.();
  }

  function tryAcquire(id: string): (() => void) | undefined {
    const owner = owners.get(id);
    const mayHaveOne = owner ? owner.requests.size === 0 && mayTake(owner.held) : mayTake(0);
    return mayHaveOne ? take(ownerOf(id)) : undefined;
  }

  return {
    tryAcquire,
    acquire(id, signal) {
      if (signal?.aborted) return Promise.reject(signal.reason);
      const granted = tryAcquire(id);
      if (granted) return Promise.resolve(granted);
      const owner = ownerOf(id);
      return new Promise((resolve, reject) => {
        const settle = () => {
          remove();
          waiting -= 1;
          signal?.removeEventListener('abort', abort);
        };
        const abort = () => {
          settle();
          // An owner with further requests keeps its place.
          if (owner.requests.size === 0) place(owner);
          reject(signal?.reason);
        };
        const remove = owner.requests.append(() => {
          settle();
          const release = take(owner);
          place(owner);
          resolve(release);
        });
        waiting += 1;
        signal?.addEventListener('abort', abort, { once: true });
        if (owner.requests.size === 1) place(owner);
      });
    },
    stats: () => ({ total, held: total - free, waiting, owners: owners.size }),
  };
}

/** Works with a permit of the owner. @throws the reason of the signal when it is aborted before the permit was granted */
export async function withPermit<T>(
  permits: FairPermits,
  ownerId: string,
  work: () => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const release = await permits.acquire(ownerId, signal);
  try {
    return await work();
  } finally {
    release();
  }
}
