import { createHash } from 'node:crypto';
import type { Bundle } from '@wellspring/contract/definition';
import { bytesOfCode } from '@wellspring/contract/definition-rules';
import { LIMITS } from '@wellspring/contract/limits';
import { createFairPermits, withPermit } from '@wellspring/core/fair-permits';
import { pauseIfLarge } from '@wellspring/core/in-pieces';
import { createLargeTurns } from '@wellspring/core/large-turns';
import { invalidComponent, Problem } from '@wellspring/core/problem';
import { Unavailable } from '@wellspring/core/unavailable';
import type { Packager } from '../port.ts';
import type { PackagerClient } from './packager-client.ts';

/** Installs the packages of a bundle. */
export interface Packages {
  /**
   * @returns the node_modules directory; undefined if there are no packages
   * @throws Unavailable while the registry cannot be reached
   */
  provide(bundle: Pick<Bundle, 'packages' | 'lockfile'>, ownerId: string): Promise<string | undefined>;
}

/** Concurrent compilations. One owner gets at most half. */
const COMPILATIONS = 4;
/** Code of up to this size compiles in a moment. */
const SMALL_CODE = 512 * 1024;
/** Concurrent installations: each may keep 512 MB of unpacked packages in memory. */
const INSTALLATIONS = 4;

/** Compiles code to bundles. Equal code and versions give the same id. Permits are shared fairly between owners. */
export function createPackager(client: PackagerClient): Packager & Packages {
  const compilations = createFairPermits({ total: COMPILATIONS });
  const turns = createLargeTurns({ smallBytes: SMALL_CODE });
  const installations = createFairPermits({ total: INSTALLATIONS });

  return {
    async bundle(code, { ownerId }) {
      const bytes = bytesOfCode(code);
      if (bytes > LIMITS.apiBody) throw invalidComponent('The code has more than 6 MB.');
      const compiled = await turns.run(ownerId, bytes, () =>
        withPermit(compilations, ownerId, () => client.compile({ code, ownerId })),
      );
      // The answer was read in one step.
      await pauseIfLarge(bytes);
      // Installs packages now, so that deployments do not wait and faults are reported immediately.
      const lockfile =
        Object.keys(compiled.packages).length === 0
          ? null
          : await withPermit(installations, ownerId, () =>
              client.settle({ packages: compiled.packages, ownerId }),
            );
      const { digest, ...parts } = compiled;
      const bundle: Bundle = { ...parts, lockfile };
      const id = createHash('sha256')
        .update(JSON.stringify([digest, lockfile]))
        .digest('hex');
      return { id, bundle };
    },
    async provide(bundle, ownerId) {
      if (Object.keys(bundle.packages).length === 0) return undefined;
      // An installed set does not wait for a permit.
      const { packages, lockfile } = bundle;
      const found = await client.find({ packages, lockfile });
      if (found) return found;
      const provided = withPermit(installations, ownerId, () =>
        client.provide({ packages, lockfile, ownerId }),
      );
      return provided.catch((error: unknown) => {
        // The run that needs them is not at fault.
        if (error instanceof Problem && error.status === 503)
          throw new Unavailable(error.message, { cause: error });
        throw error;
      });
    },
  };
}
