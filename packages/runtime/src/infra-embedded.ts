import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createEmbeddedBlob } from '@wellspring/blob/embedded';
import { createEmbeddedCall } from '@wellspring/call/embedded';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import type { Memory } from '@wellspring/core/memory';
import type { Metrics } from '@wellspring/core/metrics';
import { StartRefused } from '@wellspring/core/start-refused';
import { createTokenBuckets } from '@wellspring/core/token-buckets';
import { createEmbeddedPubSub } from '@wellspring/pubsub/embedded';
import { createEmbeddedQueue } from '@wellspring/queue/embedded';
import { openDatabase } from '@wellspring/sqlite/database';
import { lockDirectory } from '@wellspring/sqlite/lock';
import { createEmbeddedStore } from '@wellspring/store/embedded';
import type { Config } from './config.ts';
import type { Ports } from './deps.ts';

/** Files that mark a data directory whose content is being moved, or was moved, to servers. */
export const MOVING = 'moving';
export const MOVED = 'moved';

/** @throws StartRefused if the platform must not start from this data directory */
export function refuseMoved(dataDir: string): void {
  if (existsSync(join(dataDir, MOVED))) {
    throw new StartRefused(
      `The data in ${dataDir} was moved to other servers. Remove the file ${MOVED} to use it here.`,
    );
  }
  if (existsSync(join(dataDir, MOVING))) {
    throw new StartRefused(
      `A move of the data in ${dataDir} to other servers was interrupted, which may have taken jobs. Repeat it, or remove the file ${MOVING} to use the data here: a later move then needs an empty target.`,
    );
  }
}

/**
 * The adapters on a data directory, which is locked for this process.
 * @throws Error when another process holds the data directory, or its data were written by a newer version
 */
export function openEmbedded(
  { dataDir }: Config,
  { clock, log, metrics, memory }: { clock: Clock; log: Log; metrics: Metrics; memory: Memory },
): Ports {
  const release = lockDirectory(dataDir);
  try {
    const db = openDatabase(join(dataDir, 'wellspring.db'));
    metrics.gauge('wellspring_sqlite_statements', 'Statements executed since the start', () => db.executed);
    const queue = createEmbeddedQueue(db, { clock, log, memory });
    const store = createEmbeddedStore(db, ({ emitter_id, message }) =>
      queue.insert('emitted', [{ key: emitter_id, payload: message }]),
    );
    const pubsub = createEmbeddedPubSub({ log });
    const call = createEmbeddedCall({ log });
    const blob = createEmbeddedBlob(join(dataDir, 'blobs'), { clock });
    return {
      store,
      queue,
      pubsub,
      call,
      blob,
      buckets: createTokenBuckets(clock),
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
