import { createByteBudget } from '@wellspring/core/byte-budget';
import type { Clock } from '@wellspring/core/clock';

/**
 * Bytes of temporary files that this process has stored, shared fairly between owners: a single owner gets at most half.
 * A restart begins anew.
 */
export interface FileBudget {
  /**
   * Counts files until they have expired.
   * @returns a function that gives their bytes back, for files that were not stored; undefined: there is no room
   */
  take(ownerId: string, files: readonly Uint8Array[]): (() => void) | undefined;
}

const MINUTE_MS = 60_000;
/** Of a file besides its bytes: its inode, its last block, its rows. */
const FILE_BYTES = 16 * 1024;

/** @param keptMs for how long a file takes space */
export function createFileBudget(
  total: number,
  { keptMs, clock }: { keptMs: number; clock: Pick<Clock, 'now'> },
): FileBudget {
  const budget = createByteBudget(total);
  /** By the minute in which they expire; not in order if the clock was set back. */
  const expiring = new Map<number, Set<() => void>>();

  function expire(): void {
    for (const [minute, releases] of expiring) {
      if (minute * MINUTE_MS > clock.now()) continue;
      expiring.delete(minute);
      for (const release of releases) release();
    }
  }

  return {
    take(ownerId, files) {
      expire();
      const bytes = files.reduce((sum, { length }) => sum + FILE_BYTES + length, 0);
      const release = budget.tryTake(bytes, ownerId);
      if (!release) return undefined;
      const minute = Math.ceil((clock.now() + keptMs) / MINUTE_MS);
      const releases = expiring.get(minute) ?? new Set();
      expiring.set(minute, releases.add(release));
      return () => {
        releases.delete(release);
        release();
      };
    },
  };
}
