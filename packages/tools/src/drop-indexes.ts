import { join } from 'node:path';
import { systemClock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { noMetrics } from '@wellspring/core/metrics';
import type { Config } from '@wellspring/runtime/config';
import { openDistributed } from '@wellspring/runtime/infra-distributed';
import { openEmbedded } from '@wellspring/runtime/infra-embedded';
import { openMemory } from '@wellspring/runtime/memory';
import { collections } from '@wellspring/store/collections/all';

export interface DropIndexesOptions {
  config: Config;
  log: Log;
  /** Called with the name of each dropped index. */
  say(text: string): void;
}

/**
 * Drops the indexes that this version does not declare. Without this, they only cost space and time of writes. Processes
 * of a version that declares them would lose them.
 * @throws Error when the servers are unavailable, or a process runs on the data directory
 */
export async function dropIndexes({ config, log, say }: DropIndexesOptions): Promise<void> {
  const { dataDir, amqpUrl, redisUrl, mongodbUrl, s3Url } = config;
  const how = { clock: systemClock, log, metrics: noMetrics, memory: openMemory(config, noMetrics) };
  const ports =
    amqpUrl && redisUrl && mongodbUrl
      ? await openDistributed(
          { dataDir: join(dataDir, 'drop-indexes'), amqpUrl, redisUrl, mongodbUrl, s3Url },
          how,
        )
      : openEmbedded(config, how);
  try {
    for (const definition of collections) {
      for (const index of await ports.store.dropStaleIndexes(definition)) say(`${definition.name}: ${index}`);
    }
  } finally {
    await ports.close();
  }
}
