import { createSandbox, type Sandbox } from '@wellspring/sandbox/sandbox';
import { caFile, packageEnvironment } from './config.ts';
import type { Deps } from './deps.ts';
import { platformAddresses } from './platform-addresses.ts';

export type { Sandbox };

/** Starts the processes for user code. @throws IsolationUnavailable when the requested isolation is unavailable */
export function openSandbox({ config, clock, log, metrics }: Deps): Promise<Sandbox> {
  return createSandbox({
    dataDir: config.dataDir,
    isolation: config.isolation,
    codeAllowNetworks: config.codeAllowNetworks,
    platform: platformAddresses(config),
    packageEnvironment: packageEnvironment(),
    caFile: caFile(),
    reservedProcessors: config.reservedProcessors,
    ...(config.memoryMb === null ? {} : { memoryBytes: (config.memoryMb / 2) * 1024 * 1024 }),
    clock,
    log,
    metrics,
  });
}
