import { createFairPermits, type FairPermits } from '@wellspring/core/fair-permits';
import { createFairAdmission, type FairAdmission } from '@wellspring/queue/fair-admission';
import type { Deps } from '@wellspring/runtime/deps';

export interface PermitCounts {
  /** Batches of runs in progress in one runner, one per ordering key. */
  runs: number;
  /** Concurrent hooks in one runner, each in a separate process. */
  hooks: number;
}

export const PERMIT_COUNTS: PermitCounts = { runs: 256, hooks: 64 };

/**
 * Permits for the runs and hooks of one runner, shared fairly between owners: an owner whose runs never end holds at most
 * half of them, and its waiting runs do not block other owners.
 */
export interface RunPermits extends FairAdmission {
  hooks: FairPermits;
}

export function createRunPermits({ store }: Pick<Deps, 'store'>, counts: PermitCounts): RunPermits {
  return { ...createFairAdmission(store, counts.runs), hooks: createFairPermits({ total: counts.hooks }) };
}
