import { createFairPermits, withPermit } from '@wellspring/core/fair-permits';
import type { BackgroundWorker } from '@wellspring/runtime/service';
import type { CollectionDefinition, Row, Where } from '@wellspring/store/port';
import type { SourcesContext } from './context.ts';
import { MAX_TRANSITION_MS } from './hooks.ts';

const RECOVERY_INTERVAL_MS = 60_000;
/** Recoveries in progress. Their hooks may hang, and must hold up neither those of other owners nor all of their own. */
const MAX_RECOVERIES = 32;
const MAX_RECOVERIES_OF_OWNER = 4;

/** Of a source or workflow. */
interface Changing extends Row {
  owner_id: string;
  status: 'deploying' | 'updating' | 'live' | 'deleting';
  transition: { id: string; until: number } | null;
}

interface Recovery<T extends Changing> {
  /** Of the worker. */
  name: string;
  /** Of the rows, in log records. */
  kind: 'source' | 'workflow';
  collection: CollectionDefinition<T>;
  /** Completes or undoes what was interrupted. */
  recover(row: T): Promise<void>;
}

/** Looks for rows whose creation, update or deletion was interrupted by a crash, or by an outage of the store. */
export function recoveryWorker<T extends Changing>(
  {
    deps: { store, clock, log, config },
    oneAtATime,
    attempts,
  }: Pick<SourcesContext, 'deps' | 'oneAtATime' | 'attempts'>,
  { name, kind, collection, recover }: Recovery<T>,
): BackgroundWorker {
  const rows = store.collection(collection);
  const where = { status: { in: ['deploying', 'updating', 'deleting'] } } as Where<T>;
  const permits = createFairPermits({ total: MAX_RECOVERIES, maxPerOwner: () => MAX_RECOVERIES_OF_OWNER });
  /** By id, from when it waits for its permit. */
  const recovering = new Map<string, Promise<void>>();

  /** Nothing but this process may be working on it. */
  function isAbandoned({ transition }: T): boolean {
    if (config.mode === 'embedded' || transition === null) return true;
    // Its undoing has failed, too: the store was unavailable.
    if (attempts.isOwn(transition.id)) return true;
    const left = transition.until - clock.now();
    // The clock of a process that crashed was ahead, by more than one of a running process may be.
    return left <= 0 || left > 2 * MAX_TRANSITION_MS;
  }

  async function recoverOne(id: string): Promise<void> {
    // Reread: another process may have finished it meanwhile.
    const row = await rows.get(id);
    if (!row || row.status === 'live' || !isAbandoned(row)) return;
    log.info({ [`${kind}_id`]: id, status: row.status }, `${kind}.transition_recovered`);
    await recover(row);
  }

  async function recoverInTurn(id: string, ownerId: string, signal: AbortSignal): Promise<void> {
    try {
      await withPermit(permits, ownerId, () => oneAtATime(id, () => recoverOne(id)), signal);
    } catch (error) {
      if (!signal.aborted || error !== signal.reason)
        log.error({ [`${kind}_id`]: id, error: String(error) }, `${kind}.recovery_failed`);
    } finally {
      recovering.delete(id);
    }
  }

  return {
    name,
    async run(signal) {
      while (!signal.aborted) {
        for (const row of await rows.list({ where })) {
          if (recovering.has(row.id) || oneAtATime.busy(row.id) || !isAbandoned(row)) continue;
          recovering.set(row.id, recoverInTurn(row.id, row.owner_id, signal));
        }
        await clock.sleep(RECOVERY_INTERVAL_MS, signal);
      }
      await Promise.all(recovering.values());
    },
  };
}
