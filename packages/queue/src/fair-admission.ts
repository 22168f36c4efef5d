import { createFairPermits, type FairPermits } from '@wellspring/core/fair-permits';
import { createLru } from '@wellspring/core/lru';
import { parseOrderingKey } from '@wellspring/core/ordering-key';
import { findEmitter } from '@wellspring/store/collections/emitters';
import type { Store } from '@wellspring/store/port';
import type { Admission } from './port.ts';

/** Size of the cache of owners. */
const MAX_OWNERS = 20_000;
/** Jobs of deleted sources and workflows share the permits of one owner. */
const DELETED = 'deleted';

/**
 * Admission for keys of sources and workflows, with permits that are shared fairly between their owners: an owner whose
 * batches never end holds at most half of them, and its waiting keys do not block other owners.
 */
export interface FairAdmission extends Pick<FairPermits, 'stats'> {
  /** For ConsumeOptions. */
  admit(key: string, signal: AbortSignal): Promise<Admission>;
}

export function createFairAdmission(store: Store, total: number): FairAdmission {
  const { acquire, stats } = createFairPermits({ total });
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
      const owner = await ownerOf(parseOrderingKey(key).sourceId);
      return { owner, release: await acquire(owner, signal) };
    },
    stats,
  };
}
