import { withPermit } from '@wellspring/core/fair-permits';
import type { OwnerCosts } from './owner-costs.ts';
import type { RunPermits } from './run-permits.ts';

export interface PermitDeps {
  /** Those of hooks: runs do not wait for them. */
  permits: Pick<RunPermits, 'hooks'>;
  costs: Pick<OwnerCosts, 'settled'>;
}

/**
 * Starts work of an owner when it has a permit of a hook, and its share of the main thread allows it.
 * @param until aborted when the caller gives up: the work is not started any more
 * @throws the reason of the signal
 */
export const withHookPermit = <T>(
  { permits, costs }: PermitDeps,
  ownerId: string,
  until: AbortSignal,
  work: () => Promise<T>,
): Promise<T> =>
  withPermit(
    permits.hooks,
    ownerId,
    async () => {
      await costs.settled(ownerId, { signal: until });
      until.throwIfAborted();
      return work();
    },
    until,
  );
