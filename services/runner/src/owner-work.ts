/** The estimated work of each owner in the last seconds. */
export interface OwnerWork {
  /** @param ms of the main thread; negative: an earlier estimate was too high */
  add(ownerId: string, ms: number): void;
  /** Whether the owner is among those that cause most of the work. False if it is the only one. */
  isHeavy(ownerId: string): boolean;
}

/** The work of the current window and of the one before it counts. */
const WINDOW_MS = 15_000;
/** Share of the work of the owner with the most. */
const HEAVY_SHARE = 0.1;

/** @param now monotonic ms */
export function createOwnerWork(now: () => number): OwnerWork {
  let since = now();
  let current = new Map<string, number>();
  let former = new Map<string, number>();

  function rotate(): void {
    const elapsedMs = now() - since;
    if (elapsedMs < WINDOW_MS) return;
    former = elapsedMs < 2 * WINDOW_MS ? current : new Map();
    current = new Map();
    since = now();
  }

  const workOf = (ownerId: string) => (current.get(ownerId) ?? 0) + (former.get(ownerId) ?? 0);

  return {
    add(ownerId, ms) {
      rotate();
      current.set(ownerId, (current.get(ownerId) ?? 0) + ms);
    },
    isHeavy(ownerId) {
      rotate();
      let most = 0;
      let hasOthers = false;
      for (const ids of [current.keys(), former.keys()]) {
        for (const id of ids) {
          most = Math.max(most, workOf(id));
          hasOthers ||= id !== ownerId;
        }
      }
      return hasOthers && workOf(ownerId) > most * HEAVY_SHARE;
    },
  };
}
