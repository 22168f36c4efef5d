import { setTimeout as pause } from 'node:timers/promises';
import type { RevisionRow } from '../collections/revisions.ts';
import type { Collection } from '../port.ts';

interface Lease {
  row: Promise<RevisionRow | undefined>;
  /** When its read began. */
  since: number;
}

/** A read serves later ones of the process for this time from its start. */
const LEASE_MS = 25;
/** Longer than a lease by what timers and clocks of two processes may differ. */
const RAISE_MS = LEASE_MS + 5;

/**
 * Reads revisions at most once in a lease, since they are read for each event. An increment resolves when the leases of
 * all processes on the former revision have ended, so that a read still contains every increment resolved before it.
 */
export function leased(rows: Collection<RevisionRow>): Collection<RevisionRow> {
  const leases = new Map<string, Lease>();
  return {
    ...rows,
    get(id) {
      const now = performance.now();
      const lease = leases.get(id);
      if (lease && now - lease.since < LEASE_MS) return lease.row;
      const next = { row: rows.get(id), since: now };
      leases.set(id, next);
      next.row.catch(() => leases.get(id) === next && leases.delete(id));
      return next.row;
    },
    async increment(id, by, initial) {
      await rows.increment(id, by, initial);
      await pause(RAISE_MS);
    },
  };
}
