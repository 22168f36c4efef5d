import { createFairPermits } from '@wellspring/core/fair-permits';
import { createLru } from '@wellspring/core/lru';
import { parseOrderingKey } from '@wellspring/core/ordering-key';
import type { Admission } from '@wellspring/queue/port';
import type { Deps } from '@wellspring/runtime/deps';
import { findEmitter } from '@wellspring/store/collections/emitters';

export interface PermitCounts {
  /** Batches of runs in progress in one runner, one per ordering key. */
  runs: number;
  /** Concurrent hooks in one runner, each in a separate process. */
  hooks: number;
}

export const PERMIT_COUNTS: PermitCounts = { runs: 256, hooks: 64 };
/** Size of the cache of source owners. */
const MAX_OWNERS = 20_000;
/** Jobs of deleted sources share the permits of one owner; they are dropped at once. */
const DELETED = 'deleted';

/**
 * Permits for the runs and hooks of one runner, shared fairly between owners: an owner whose runs never end holds at most
 * half of them, and its waiting runs do not block other owners.
 */
export interface RunPermits {
  /** For ConsumeOptions of the queue `runs`. */
  admit(key: string, signal: AbortSignal): Promise<Admission>;
  /** @throws the reason of the signal */
  hook(ownerId: string, signal: AbortSignal): Promise<() => void>;
  stats(): { held: number; waiting: number };
}

export function createRunPermits({ store }: Pick<Deps, 'store'>, counts: PermitCounts): RunPermits {
  const runs = createFairPermits({ total: counts.runs });
  const hooks = createFairPermits({ total: counts.hooks });
  const owners = createLru<string>(MAX_OWNERS);

  async function ownerOf(sourceId: string): Promise<string> {
    // Sources and workflows never change their owner.
    const known = owners.get(sourceId) ?? (await findEmitter(store, sourceId))?.owner_id;
    if (known === undefined) return DELETED;
    owners.set(sourceId, known);
    return known;
  }

  return {
    async admit(key, signal) {
      const { sourceId } = parseOrderingKey(key);
      const owner = await ownerOf(sourceId!);
      return { owner, release: await runs.acquire(owner, signal) };
    },
    hook: (ownerId, signal) => hooks.acquire(ownerId, signal),
    stats: runs.stats,
  };
}
