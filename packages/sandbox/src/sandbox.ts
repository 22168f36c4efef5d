import { join } from 'node:path';
import { LIMITS } from '@wellspring/contract/limits';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { createPackageStore } from './packages/install.ts';
import { createMaterialise } from './packages/materialise.ts';
import { createPackager } from './packages/packager.ts';
import type { Executor, Packager } from './port.ts';
import { writeChildProgram } from './runtime-files.ts';
import { selfTest } from './self-test.ts';
import { createSlots } from './slots.ts';
import { createSupervisor } from './supervisor.ts';
import { createBubblewrapTier, findBubblewrap } from './tiers/bubblewrap.ts';
import { createPlainTier } from './tiers/none.ts';
import { NOBODY, type Tier, type TierOptions } from './tiers/tier.ts';

export interface SandboxOptions {
  dataDir: string;
  /** WELLSPRING_ISOLATION */
  isolation: 'auto' | 'required' | 'bubblewrap' | 'launcher' | 'none';
  codeAllowNetworks: readonly string[];
  /** For the package manager. */
  packageEnvironment: Record<string, string>;
  clock: Clock;
  log: Log;
  /** Processes kept ready; default 4. */
  pool?: number;
}

export interface Sandbox {
  executor: Executor;
  packager: Packager;
}

/** The isolation that was asked for cannot be had on this machine. */
export class IsolationUnavailable extends Error {
  override readonly name = 'IsolationUnavailable';
}

const INSTALL_HINT =
  'Install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap).';

/** Tiers to try, strongest first. */
function candidates(
  isolation: SandboxOptions['isolation'],
  options: Omit<TierOptions, 'user'>,
): (() => Tier)[] {
  if (isolation === 'launcher')
    throw new IsolationUnavailable('WELLSPRING_ISOLATION=launcher is not available in this version.');
  const bwrap = findBubblewrap();
  // A platform that runs as root starts the code as nobody, where nobody may read what Node needs.
  const users: TierOptions['user'][] =
    process.getuid?.() === 0 ? [{ uid: NOBODY, gid: NOBODY }, undefined] : [undefined];
  const strong =
    bwrap === undefined ? [] : users.map((user) => () => createBubblewrapTier(bwrap, { ...options, user }));
  const plain = users.map((user) => () => createPlainTier({ ...options, user }));
  if (isolation === 'none') return plain;
  if (isolation === 'auto') return [...strong, ...plain];
  if (strong.length === 0)
    throw new IsolationUnavailable(`WELLSPRING_ISOLATION=${isolation} needs bubblewrap. ${INSTALL_HINT}`);
  return strong;
}

/**
 * Picks the strongest isolation that proves itself by the self-test.
 * @throws IsolationUnavailable when what was asked for does not
 */
export async function createSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { dataDir, isolation, codeAllowNetworks, packageEnvironment, clock, log, pool = 4 } = options;
  const slots = createSlots(dataDir);
  const program = await writeChildProgram(slots.shared);
  const packages = createPackageStore(join(dataDir, 'packages'), packageEnvironment, log);
  const materialise = createMaterialise(join(dataDir, 'bundles'), packages);
  const tierOptions = {
    program,
    directory: join(slots.shared, 'tier'),
    packages: slots.packages,
    codeAllowNetworks,
    heapMb: LIMITS.memoryMb - 64,
  };
  const failures: string[] = [];
  for (const create of candidates(isolation, tierOptions)) {
    const tier = create();
    const executor = createSupervisor({ tier, slots, materialise, clock, log, pool });
    const failure = await selfTest(executor, codeAllowNetworks);
    if (failure === undefined) {
      const close = async () => {
        await executor.close();
        slots.close();
      };
      return { executor: { ...executor, close }, packager: createPackager(packages) };
    }
    await executor.close();
    failures.push(`${tier.name}: ${failure}`);
    log.warn({ tier: tier.name, failure }, 'sandbox.tier_refused');
  }
  slots.close();
  throw new IsolationUnavailable(`No isolation passes its self-test (${failures.join('; ')}).`);
}
