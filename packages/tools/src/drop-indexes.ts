import type { Log } from '@wellspring/core/log';
import type { Config } from '@wellspring/runtime/config';
import { collections } from '@wellspring/store/collections/all';
import { openPorts, requireData } from './open-ports.ts';

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
  if (config.mode === 'embedded') requireData(config.dataDir);
  const ports = await openPorts(config, log, 'drop-indexes');
  try {
    for (const definition of collections) {
      for (const index of await ports.store.dropStaleIndexes(definition)) say(`${definition.name}: ${index}`);
    }
  } finally {
    await ports.close();
  }
}
