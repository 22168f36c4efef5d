import { createLru } from '@wellspring/core/lru';
import type { Deps } from '@wellspring/runtime/deps';
import type { BackgroundWorker } from '@wellspring/runtime/service';
import type { Executor, Task } from '@wellspring/sandbox/port';
import { orgs } from '@wellspring/store/collections/users';

/** The private networks that the code of an owner may reach. */
export interface OwnerNetworks {
  /** For a task of this owner. Reads the store once per organization; users have no networks. */
  of(ownerId: string): Promise<NonNullable<Task['owner']>>;
  /** Applies changes to the running sandboxes. */
  worker: BackgroundWorker;
}

/** A change of an organization takes effect for new connections within this time. */
const REFRESH_INTERVAL_MS = 2_000;
const ORG = /^o_/;
const MAX_ORGS = 10_000;

export function createOwnerNetworks(
  { store, clock, log }: Pick<Deps, 'store' | 'clock' | 'log'>,
  executor: Pick<Executor, 'allowNetworks'>,
): OwnerNetworks {
  const rows = store.collection(orgs);
  const known = createLru<Promise<readonly string[]>>(MAX_ORGS);

  function networksOf(id: string): Promise<readonly string[]> {
    let networks = known.get(id);
    if (!networks) {
      networks = rows.get(id).then((org) => org?.code_allow_networks ?? []);
      networks.catch(() => known.delete(id));
      known.set(id, networks);
    }
    return networks;
  }

  async function refresh(): Promise<void> {
    const ids = [...known.rkeys()];
    if (ids.length === 0) return;
    const found = new Map(
      (await rows.list({ where: { id: { in: ids } } })).map((row) => [row.id, row.code_allow_networks]),
    );
    for (const id of ids) {
      // A deleted organization allows nothing.
      const allowNetworks = found.get(id) ?? [];
      known.set(id, Promise.resolve(allowNetworks));
      executor.allowNetworks({ id, allowNetworks });
    }
  }

  return {
    of: async (id) => ({ id, allowNetworks: ORG.test(id) ? await networksOf(id) : [] }),
    worker: {
      name: 'runner.networks',
      async run(signal) {
        while (!signal.aborted) {
          await refresh().catch((error: unknown) => {
            log.warn({ error: String(error) }, 'networks.refresh_failed');
          });
          await clock.sleep(REFRESH_INTERVAL_MS, signal);
        }
      },
    },
  };
}
