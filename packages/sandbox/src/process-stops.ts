import type { ChildUsage } from './child-usage.ts';

/**
 * `frozen`: it has no call · `held`: its owner has used up its share of the processors · `full`: its output has no room
 */
export type StopReason = 'frozen' | 'held' | 'full';

/** A process is stopped while there is a reason. */
export interface ProcessStops {
  /** @returns false if the platform must not stop it */
  add(reason: StopReason): boolean;
  remove(reason: StopReason): void;
}

export function createProcessStops({ stop, resume }: ChildUsage): ProcessStops {
  const reasons = new Set<StopReason>();
  return {
    add(reason) {
      if (reasons.size === 0 && !stop()) return false;
      reasons.add(reason);
      return true;
    },
    remove(reason) {
      if (reasons.delete(reason) && reasons.size === 0) resume();
    },
  };
}
