import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { noMetrics } from '@wellspring/core/metrics';
import type { Config } from '@wellspring/runtime/config';
import type { Ports } from '@wellspring/runtime/deps';
import { openDistributed } from '@wellspring/runtime/infra-distributed';
import { openEmbedded } from '@wellspring/runtime/infra-embedded';
import { openMemory } from '@wellspring/runtime/memory';

/** @throws Error if the platform never ran on this data directory: its name may be misspelt */
export function requireData(dataDir: string): void {
  if (!existsSync(join(dataDir, 'wellspring.db'))) throw new Error(`${dataDir} holds no data of a platform.`);
}

/**
 * The adapters of the platform with this configuration.
 * @param command names the directory of its caches
 * @throws Error when the servers are unavailable, or a process runs on the data directory
 */
export async function openPorts(config: Config, log: Log, command: string): Promise<Ports> {
  const { dataDir, amqpUrl, redisUrl, mongodbUrl, s3Url } = config;
  const how = { clock: systemClock, log, metrics: noMetrics, memory: openMemory(config, noMetrics) };
  if (!amqpUrl || !redisUrl || !mongodbUrl) return openEmbedded(config, how);
  return openDistributed({ dataDir: join(dataDir, command), amqpUrl, redisUrl, mongodbUrl, s3Url }, how);
}
