/** The estimated work of each owner in the last seconds. */
export interface OwnerWork {
  add(ownerId: string, ms: number): void;
  /** Whether the owner caused more work than the average of the active owners. False if it is the only one. */
  isAboveAverage(ownerId: string): boolean;
}

/** The work of the current window and of the one before it counts. */
const WINDOW_MS = 5_000;

interface Window {
  total: number;
  byOwner: Map<string, number>;
}

const emptyWindow = (): Window => ({ total: 0, byOwner: new Map() });

/** @param now monotonic ms */
export function createOwnerWork(now: () => number): OwnerWork {
  let since = now();
  let current = emptyWindow();
  let former = emptyWindow();
  /** Owners in either window. */
  let owners = 0;

  function rotate(): void {
    const elapsedMs = now() - since;
    if (elapsedMs < WINDOW_MS) return;
    former = elapsedMs < 2 * WINDOW_MS ? current : emptyWindow();
    current = emptyWindow();
    owners = former.byOwner.size;
    since = now();
  }

  return {
    add(ownerId, ms) {
      rotate();
      const known = current.byOwner.get(ownerId);
      if (known === undefined && !former.byOwner.has(ownerId)) owners += 1;
      current.byOwner.set(ownerId, (known ?? 0) + ms);
      current.total += ms;
    },
    isAboveAverage(ownerId) {
      rotate();
      const own = (current.byOwner.get(ownerId) ?? 0) + (former.byOwner.get(ownerId) ?? 0);
      return owners > 1 && own > (current.total + former.total) / owners;
    },
  };
}
