import { chmodSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Bundle } from '@wellspring/contract/definition';
import { systemClock } from '@wellspring/core/clock';
import { silentLog } from '@wellspring/core/log';
import type { Problem } from '@wellspring/core/problem';
import type { Packager } from '../port.ts';
import type { BundleFiles } from './bundle-files.ts';
import type { Jail } from './jail/jail.ts';
import { chooseJail, NPM_DEFAULTS, openDirectory, UNPRIVILEGED } from './jail.fixture.ts';
import { openPackager } from './open-packager.ts';

/** The packager of a platform without sandboxes. */
export interface TestPackager extends AsyncDisposable {
  dataDir: string;
  packager: Packager;
  /** Bundles code of `u_test` that imports these packages. @returns an error as `status code: message` */
  install(...specifiers: string[]): Promise<Bundle | string>;
  installFor(ownerId: string, ...specifiers: string[]): Promise<Bundle | string>;
  bundleFiles: BundleFiles;
  /** Content of all installed files, by path below the set's node_modules. */
  installed(): Record<string, string>;
}

/** @param disk for the data directory */
export async function openTestPackager(
  jail: Jail['name'],
  packageEnvironment: Record<string, string>,
  disk?: string,
): Promise<TestPackager> {
  const directory = await openDirectory();
  const [dataDir, shared] = [join(disk ?? directory.path, 'data'), join(directory.path, 'shared')];
  await mkdir(dataDir, { mode: 0o700 });
  await mkdir(shared);
  chmodSync(shared, 0o711);
  const { packager, bundleFiles, close } = await openPackager({
    dataDir,
    shared,
    jail: chooseJail(jail, join(dataDir, 'cache')),
    user: UNPRIVILEGED,
    packageEnvironment: { ...NPM_DEFAULTS, ...packageEnvironment },
    clock: systemClock,
    log: silentLog,
  });
  async function installFor(ownerId: string, ...specifiers: string[]): Promise<Bundle | string> {
    const code = `${specifiers.map((one, n) => `import p${n} from '${one}';`).join('\n')}
      export default { name: 'x', list: [${specifiers.map((_, n) => `p${n}`).join()}] }`;
    try {
      return (await packager.bundle({ code }, { ownerId })).bundle;
    } catch (error) {
      const { status, code, message } = error as Partial<Problem>;
      return `${status} ${code}: ${message}`;
    }
  }
  return {
    dataDir,
    packager,
    bundleFiles,
    install: (...specifiers) => installFor('u_test', ...specifiers),
    installFor,
    installed() {
      const found: Record<string, string> = {};
      const sets = join(dataDir, 'packages', 'sets');
      for (const set of existsSync(sets) ? readdirSync(sets) : []) {
        const root = join(sets, set, 'node_modules');
        for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
          if (entry.isDirectory()) continue;
          const path = join(entry.parentPath, entry.name);
          found[path.slice(root.length + 1)] = entry.isFile() ? readFileSync(path, 'utf8') : 'not a file';
        }
      }
      return found;
    },
    async [Symbol.asyncDispose]() {
      await close();
      await directory.remove();
    },
  };
}
