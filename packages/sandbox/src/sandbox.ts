import { join } from 'node:path';
import { LIMITS } from '@wellspring/contract/limits';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import type { Metrics } from '@wellspring/core/metrics';
import { copyCaFile } from './ca-file.ts';
import type { EgressLimits } from './egress/limits.ts';
import type { PlatformAddresses } from './egress/policy.ts';
import { startEgress } from './egress/relay-process.ts';
import { jailFor } from './packages/jail/choose.ts';
import { type OpenPackager, openPackager } from './packages/open-packager.ts';
import type { Executor, Packager } from './port.ts';
import { createProcessDirectories } from './process-directories.ts';
import { createReadableFiles } from './readable-files.ts';
import { writePrograms } from './runtime-files.ts';
import { processorsForCode } from './scheduling.ts';
import { selfTest } from './self-test.ts';
import { createSpawner } from './spawner/spawner.ts';
import { createSupervisor } from './supervisor.ts';
import { chooseTier, type Isolation } from './tiers/choose.ts';
import { removeLeftovers } from './tiers/launcher-leftovers.ts';
import { NOBODY } from './tiers/root-files.ts';
import { logSharedLimits } from './tiers/user-limits.ts';
import { createUserIds } from './user-ids.ts';

export interface SandboxOptions {
  dataDir: string;
  /** WELLSPRING_ISOLATION */
  isolation: Isolation;
  /** WELLSPRING_CODE_ALLOW_NETWORKS: CIDRs that all code may reach. */
  codeAllowNetworks: readonly string[];
  /** Addresses that no code may reach, even if a network is allowed. */
  platform: PlatformAddresses;
  /** For tests. */
  egressLimits?: Partial<EgressLimits>;
  /** File of certificates of authorities that user code trusts too (PEM). */
  caFile?: string | undefined;
  /** For the package manager. */
  packageEnvironment: Record<string, string>;
  clock: Clock;
  log: Log;
  metrics: Metrics;
  /** WELLSPRING_RESERVED_PROCESSORS; default 1. */
  reservedProcessors?: number;
  /** Processes kept ready; default 4. */
  pool?: number;
  /** See SandboxProcessesOptions. */
  memoryBytes?: number;
  freezeAfterMs?: number;
  /** Number of processors that owners share; default: those of user code. */
  processors?: number;
}

export interface Sandbox {
  executor: Executor;
  packager: Packager;
}

/**
 * Chooses the strongest tier that passes the self-test.
 * @throws IsolationUnavailable if no tier of the setting passes
 */
export async function createSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { dataDir, isolation, codeAllowNetworks, platform, egressLimits } = options;
  const { packageEnvironment, caFile, clock, log, metrics, pool = 4, reservedProcessors = 1 } = options;
  const processors = processorsForCode(reservedProcessors, log);
  const cache = join(dataDir, 'cache');
  const userIds = createUserIds();
  const directories = createProcessDirectories(dataDir, userIds, (base) => removeLeftovers(base, cache, log));
  const programs = await writePrograms(directories.shared);
  const readable = createReadableFiles(directories.shared);
  const tierOptions = {
    programs,
    directory: join(directories.shared, 'tier'),
    readable,
    cache,
    packages: directories.packages,
    caFile: caFile === undefined ? undefined : copyCaFile(caFile, directories.shared, log),
    heapMb: LIMITS.memoryMb - 64,
  };
  const egress = startEgress({
    node: readable.provide(process.execPath),
    program: readable.provide(programs.relay),
    config: { allowNetworks: codeAllowNetworks, platform, ...(egressLimits ? { limits: egressLimits } : {}) },
    log,
    metrics,
  });
  const spawner = createSpawner({
    program: programs.spawner,
    directory: directories.shared,
    log,
    processors,
  });
  /** Packagers of the tiers that were tried. */
  const opened: OpenPackager[] = [];
  try {
    const executor = await chooseTier(isolation, tierOptions, log, async (tier) => {
      const packager = await openPackager({
        dataDir,
        shared: directories.shared,
        jail: jailFor(tier.name, cache, userIds),
        user: process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : undefined,
        packageEnvironment,
        processors,
        clock,
        log,
      });
      opened.push(packager);
      const { bundleFiles } = packager;
      const tried = createSupervisor({
        ...(processors ? { processors: processors.length } : {}),
        ...options,
        tier,
        spawner,
        directories,
        egress,
        bundleFiles,
        pool,
      });
      const [failed, jailFailed] = await Promise.all([selfTest(tried, codeAllowNetworks), packager.check()]);
      const failure = failed ?? jailFailed;
      if (failure === undefined) return { executor: tried };
      await tried.close();
      await packager.close();
      return { failure };
    });
    logSharedLimits(executor.tier, log);
    const { packager, close: closePackager } = opened.at(-1)!;
    const close = async () => {
      await executor.close();
      await closePackager();
      await spawner.close();
      await egress.dispose();
      directories.close();
    };
    return { executor: { ...executor, close }, packager };
  } catch (error) {
    for (const { close } of opened) await close();
    await spawner.close();
    await egress.dispose();
    directories.close();
    throw error;
  }
}
