import { join } from 'node:path';
import { createEmbeddedBlob } from '@wellspring/blob/embedded';
import { createEmbeddedCall } from '@wellspring/call/embedded';
import { systemClock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { createSeal } from '@wellspring/core/seal';
import { createEmbeddedPubSub } from '@wellspring/pubsub/embedded';
import { createEmbeddedQueue } from '@wellspring/queue/embedded';
import { openDatabase } from '@wellspring/sqlite/database';
import { lockDirectory } from '@wellspring/sqlite/lock';
import { createEmbeddedStore } from '@wellspring/store/embedded';
import type { Config } from './config.ts';
import { type Keys, readKeys } from './credentials.ts';
import type { Deps } from './deps.ts';
import { createMetrics, type Exposition } from './metrics.ts';

export interface Infra {
  deps: Deps;
  keys: Keys;
  exposition: Exposition;
  /** Closes the adapters, and lets go of the data directory. */
  close(): Promise<void>;
}

/**
 * Builds the adapters of this process. The only importer of them.
 * @throws Error when another process holds the data directory, or its data were written by a newer version
 */
export async function openInfra(config: Config, log: Log): Promise<Infra> {
  if (config.mode === 'distributed') throw new Error('The distributed mode is not available yet.');
  const clock = systemClock;
  const release = lockDirectory(config.dataDir);
  try {
    const keys = readKeys(config);
    const db = openDatabase(join(config.dataDir, 'wellspring.db'));
    const store = createEmbeddedStore(db);
    const queue = createEmbeddedQueue(db, { clock, log });
    const pubsub = createEmbeddedPubSub({ log });
    const call = createEmbeddedCall({ log });
    const blob = createEmbeddedBlob(join(config.dataDir, 'blobs'), { clock });
    const exposition = createMetrics();
    return {
      deps: {
        config: { ...config, adminKey: keys.credentials.admin_key, apiKey: keys.credentials.api_key },
        store,
        queue,
        pubsub,
        call,
        blob,
        clock,
        log,
        metrics: exposition.metrics,
        seal: createSeal(keys.secretKeys),
      },
      keys,
      exposition,
      async close() {
        try {
          for (const adapter of [blob, call, pubsub, queue, store]) await adapter.close();
          await db.close();
        } finally {
          release();
        }
      },
    };
  } catch (error) {
    release();
    throw error;
  }
}
