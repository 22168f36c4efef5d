import type { Log } from '@wellspring/core/log';
import { createSeal, type Seal } from '@wellspring/core/seal';
import type { Config } from '@wellspring/runtime/config';
import { endRotation, openRootKey } from '@wellspring/runtime/root-key';
import { openValues, sealValues } from '@wellspring/runtime/secret-values';
import { accounts } from '@wellspring/store/collections/accounts';
import { idempotencyKeys } from '@wellspring/store/collections/idempotency';
import { deployments } from '@wellspring/store/collections/sources';
import { webhooks } from '@wellspring/store/collections/webhooks';
import { type CollectionDefinition, modify, type Row, type Where } from '@wellspring/store/port';
import { openPorts, requireData } from './open-ports.ts';

const PAGE_SIZE = 100;

export interface ResealOptions {
  config: Config;
  log: Log;
  /** Called with progress messages. */
  say(text: string): void;
}

/**
 * Seals all secrets with the newest root key, so that the others are no longer required. Processes that seal with another
 * one must not run. Can be repeated after an interruption.
 * @throws Error when the servers are unavailable, the data directory holds no data, or a process runs on it; WrongRootKey
 */
export async function reseal({ config, log, say }: ResealOptions): Promise<void> {
  if (config.mode === 'embedded') requireData(config.dataDir);
  const { store, close } = await openPorts(config, log, 'reseal');
  try {
    const { keys, seal } = await openRootKey(store, config);
    const newest = createSeal(keys.secretKeys.slice(0, 1));
    async function each<T extends Row>(
      definition: CollectionDefinition<T>,
      sealed: (seal: Seal, row: T) => T,
    ): Promise<void> {
      const rows = store.collection(definition);
      let count = 0;
      for (let after: string | undefined = ''; after !== undefined; ) {
        const where = { id: { gt: after } } as Where<T>;
        const page: T[] = await rows.list({ where, order: 'asc', limit: PAGE_SIZE });
        for (const row of page) {
          if (succeeds(() => sealed(newest, row))) continue;
          if (succeeds(() => sealed(seal, row))) {
            await modify(rows, row.id, (found) => sealed(seal, found));
            count += 1;
          } else say(`${definition.name}: ${row.id} cannot be opened with any of the keys.`);
        }
        after = page.at(-1)?.id;
      }
      say(`${definition.name}: ${count} rows`);
    }
    await each(webhooks, (by, row) => ({
      ...row,
      secret: again(by, row.secret, row.id),
      old_secret: row.old_secret === null ? null : again(by, row.old_secret, row.id),
      older_secrets: row.older_secrets?.map((one) => ({ ...one, secret: again(by, one.secret, row.id) })),
    }));
    await each(accounts, (by, row) => ({ ...row, credentials: again(by, row.credentials, row.id) }));
    await each(deployments, (by, row) => ({
      ...row,
      configured_props: sealValues(
        { seal: by },
        row.definition.props,
        openValues({ seal: by }, row),
        row.source_id,
      ),
    }));
    await each(idempotencyKeys, (by, { response, ...row }) => ({
      ...row,
      response: response && { ...response, body: again(by, response.body, row.id) },
    }));
    await endRotation(store, keys);
  } finally {
    await close();
  }
}

const again = (seal: Seal, sealed: string, context: string) => seal.seal(seal.open(sealed, context), context);

function succeeds(work: () => unknown): boolean {
  try {
    work();
    return true;
  } catch {
    return false;
  }
}
