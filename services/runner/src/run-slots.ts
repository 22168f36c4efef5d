import { createFairPermits } from '@wellspring/core/fair-permits';
import { parseOrderingKey } from '@wellspring/core/ordering-key';
import type { Deps } from '@wellspring/runtime/deps';
import { sources } from '@wellspring/store/collections/sources';

export interface SlotCounts {
  /** Sources that run at a time in one runner. */
  runs: number;
  /** Hooks that run at a time in one runner; each has a process of its own, beside the runs. */
  hooks: number;
}

export const SLOT_COUNTS: SlotCounts = { runs: 256, hooks: 64 };
/** Owners of sources that are kept in memory. */
const MAX_OWNERS = 20_000;
/** Jobs of sources that are gone share the slots of one owner; they are dropped at once. */
const GONE = 'gone';

/**
 * What one runner can execute at a time, shared fairly between the owners of the sources: an owner whose runs never end
 * gets half of the slots at most, and its further runs wait without holding up those of other owners.
 */
export interface RunSlots {
  /** For ConsumeOptions of the queue `runs`. */
  admit(key: string, signal: AbortSignal): Promise<() => void>;
  /** @throws the reason of the signal */
  hook(ownerId: string, signal: AbortSignal): Promise<() => void>;
  stats(): { held: number; waiting: number };
}

export function createRunSlots({ store }: Pick<Deps, 'store'>, counts: SlotCounts): RunSlots {
  const runs = createFairPermits({ total: counts.runs });
  const hooks = createFairPermits({ total: counts.hooks });
  const rows = store.collection(sources);
  const owners = new Map<string, string>();

  async function ownerOf(sourceId: string): Promise<string> {
    // A source never changes its owner.
    const known = owners.get(sourceId) ?? (await rows.get(sourceId))?.owner_id;
    if (known === undefined) return GONE;
    owners.delete(sourceId);
    owners.set(sourceId, known);
    if (owners.size > MAX_OWNERS) owners.delete(owners.keys().next().value!);
    return known;
  }

  return {
    async admit(key, signal) {
      const { sourceId } = parseOrderingKey(key);
      return runs.acquire(await ownerOf(sourceId!), signal);
    },
    hook: (ownerId, signal) => hooks.acquire(ownerId, signal),
    stats: runs.stats,
  };
}
