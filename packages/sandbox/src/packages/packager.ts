import { createHash } from 'node:crypto';
import type { Bundle } from '@wellspring/contract/definition';
import { LIMITS } from '@wellspring/contract/limits';
import { invalidComponent } from '@wellspring/core/problem';
import type { Packager } from '../port.ts';
import { compile } from './compile.ts';
import type { PackageStore } from './install.ts';

/** Makes bundles of code. The same code and versions give the same id. */
export function createPackager(packages: PackageStore): Packager {
  return {
    async bundle(code) {
      const size = [code.code, ...Object.values(code.modules ?? {})].reduce(
        (sum, text) => sum + Buffer.byteLength(text),
        0,
      );
      if (size > LIMITS.apiBody) throw invalidComponent('The code has more than 6 MB.');
      const compiled = await compile(code);
      const lockfile = await packages.resolve(compiled.packages);
      const bundle: Bundle = { ...compiled, lockfile };
      const id = createHash('sha256').update(JSON.stringify(bundle)).digest('hex');
      // Installed now, so that a deployment does not wait for it, and what cannot be installed is known at once.
      await packages.provide(bundle);
      return { id, bundle };
    },
  };
}
