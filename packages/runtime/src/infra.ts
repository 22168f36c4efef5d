import { type Clock, systemClock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import type { Memory } from '@wellspring/core/memory';
import type { Metrics } from '@wellspring/core/metrics';
import type { Config } from './config.ts';
import type { Keys } from './credentials.ts';
import type { Deps, Ports } from './deps.ts';
import { openMemory } from './memory.ts';
import { createMetrics, type Exposition } from './metrics.ts';
import { openRootKey } from './root-key.ts';
import { refuseUnfinishedMove } from './unfinished-move.ts';
import { untilAvailable } from './until-available.ts';

export interface Infra {
  deps: Deps;
  keys: Keys;
  exposition: Exposition;
  /** Closes the adapters and unlocks the data directory. */
  close(): Promise<void>;
}

/** The adapters of a mode; those of the other one are not loaded. Only the modules `infra*` know them. @throws Error when they are unavailable */
async function openPorts(
  config: Config,
  how: { clock: Clock; log: Log; metrics: Metrics; memory: Memory },
): Promise<Ports> {
  const { dataDir, amqpUrl, redisUrl, mongodbUrl, s3Url } = config;
  // The configuration has been validated: all three are set, or none.
  if (!amqpUrl || !redisUrl || !mongodbUrl) {
    const { openEmbedded, refuseMoved } = await import('./infra-embedded.ts');
    refuseMoved(dataDir);
    return openEmbedded(config, how);
  }
  const { openDistributed } = await import('./infra-distributed.ts');
  return openDistributed({ dataDir, amqpUrl, redisUrl, mongodbUrl, s3Url }, how);
}

/** Builds the dependencies of the services. @throws Error when the adapters are unavailable, WrongRootKey */
export async function openInfra(config: Config, log: Log): Promise<Infra> {
  const clock = systemClock;
  const exposition = createMetrics();
  const { metrics } = exposition;
  const memory = openMemory(config, metrics);
  const ports = await openPorts(config, { clock, log, metrics, memory });
  try {
    const how = { mode: config.mode, clock, log };
    if (config.mode === 'distributed') await untilAvailable(how, () => refuseUnfinishedMove(ports.store));
    const { keys, seal } = await untilAvailable(how, () => openRootKey(ports.store, config));
    const { close, ...adapters } = ports;
    return {
      deps: {
        config: { ...config, adminKey: keys.credentials.admin_key, apiKey: keys.credentials.api_key },
        ...adapters,
        clock,
        log,
        metrics,
        memory,
        seal,
      },
      keys,
      exposition,
      close,
    };
  } catch (error) {
    await ports.close();
    throw error;
  }
}
