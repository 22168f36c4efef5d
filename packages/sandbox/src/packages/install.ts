import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import { dirname, join } from 'node:path';
import type { Bundle } from '@wellspring/contract/definition';
import type { Log } from '@wellspring/core/log';
import { invalidComponent, unavailable } from '@wellspring/core/problem';

/** npm packages of components, below one directory: a content-addressed store, and a folder per set of packages. */
export interface PackageStore {
  /** Settles the versions now, and gives the lockfile that says which. @throws Problem 400 naming what cannot be had */
  resolve(packages: Bundle['packages']): Promise<string | null>;
  /** The node_modules folder with these packages, installed when it is not there; undefined: there are none. */
  provide(bundle: Pick<Bundle, 'packages' | 'lockfile'>): Promise<string | undefined>;
}

const INSTALL_MS = 110_000;
/** The last thing that the package manager says when all is done. */
const DONE = '"pnpm:execution-time"';
const LOCKFILE = 'pnpm-lock.yaml';

/** Installs without running anything of the packages, flat, so that the folder can be hard-linked as it is. */
const FLAGS = [
  'install',
  '--prod',
  '--ignore-scripts',
  '--ignore-workspace',
  '--config.node-linker=hoisted',
  '--config.strict-peer-dependencies=false',
  '--config.auto-install-peers=true',
  '--config.block-exotic-subdeps=true',
  '--config.verify-deps-before-run=false',
  '--reporter=ndjson',
];

/** The package manager that comes with this package: no machine needs one of its own. */
function packageManager(): string {
  const manifest = createRequire(import.meta.url).resolve('pnpm/package.json');
  return join(dirname(manifest), 'pnpm');
}

/** @param environment what the package manager needs to reach its registry: proxies, certificates, npm's settings */
export function createPackageStore(
  directory: string,
  environment: Record<string, string>,
  log: Log,
): PackageStore {
  const manager = packageManager();
  const underWay = new Map<string, Promise<string>>();

  const keyOf = ({ packages, lockfile }: Pick<Bundle, 'packages' | 'lockfile'>) =>
    createHash('sha256')
      .update(
        JSON.stringify([Object.entries(packages).sort(), lockfile, process.versions.modules, process.arch]),
      )
      .digest('hex')
      .slice(0, 32);

  async function run(folder: string, flags: readonly string[]): Promise<void> {
    const args = [...FLAGS, `--config.store-dir=${join(directory, 'store')}`, ...flags];
    const child = spawn(manager, args, {
      cwd: folder,
      env: { CI: 'true', ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let said = '';
    let finish: () => void = () => {};
    const finished = new Promise<0>((resolve) => {
      finish = () => resolve(0);
    });
    const hear = (text: string) => {
      said = (said + text).slice(-8000);
      if (said.includes(DONE)) finish();
    };
    child.stdout.setEncoding('utf8').on('data', hear);
    child.stderr.setEncoding('utf8').on('data', hear);
    const timer = setTimeout(() => child.kill('SIGKILL'), INSTALL_MS);
    const ended = new Promise<number | null>((resolve, reject) => {
      child.on('error', reject);
      child.on('close', resolve);
    });
    ended.catch(() => {}).finally(() => clearTimeout(timer));
    // It may linger for seconds when it has done its work, over names that it still resolves: nobody waits for that.
    const code = await Promise.race([ended, finished]);
    for (const handle of [child, timer, child.stdout as Socket, child.stderr as Socket]) handle.unref();
    if (code !== 0) throw new InstallFailed(said);
  }

  async function manifest(packages: Bundle['packages'], lockfile: string | null): Promise<string> {
    const folder = join(directory, 'work', randomBytes(8).toString('hex'));
    await mkdir(folder, { recursive: true });
    const dependencies = Object.fromEntries(
      Object.entries(packages).map(([alias, { name, version }]) => [
        alias,
        alias === name ? version : `npm:${name}@${version}`,
      ]),
    );
    await writeFile(
      join(folder, 'package.json'),
      JSON.stringify({ name: 'component', private: true, dependencies }),
    );
    if (lockfile !== null) await writeFile(join(folder, LOCKFILE), lockfile);
    return folder;
  }

  async function install(key: string, bundle: Pick<Bundle, 'packages' | 'lockfile'>): Promise<string> {
    const home = join(directory, 'sets', key);
    if (!existsSync(home)) {
      const folder = await manifest(bundle.packages, bundle.lockfile);
      try {
        await run(folder, ['--frozen-lockfile']);
        await mkdir(dirname(home), { recursive: true });
        await rename(folder, home).catch((error: unknown) => {
          if (!existsSync(home)) throw error;
        });
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    }
    return join(home, 'node_modules');
  }

  return {
    async resolve(packages) {
      if (Object.keys(packages).length === 0) return null;
      const folder = await manifest(packages, null);
      try {
        await run(folder, ['--lockfile-only', '--no-frozen-lockfile']);
        return await readFile(join(folder, LOCKFILE), 'utf8');
      } catch (error) {
        if (!(error instanceof InstallFailed)) throw error;
        log.warn({ packages, output: error.said.slice(-2000) }, 'packages.not_resolved');
        throw error.asProblem(packages);
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
    async provide(bundle) {
      if (Object.keys(bundle.packages).length === 0) return undefined;
      const key = keyOf(bundle);
      let installing = underWay.get(key);
      if (!installing) {
        installing = install(key, bundle).finally(() => underWay.delete(key));
        underWay.set(key, installing);
      }
      return installing;
    },
  };
}

class InstallFailed extends Error {
  override readonly name = 'InstallFailed';
  readonly said: string;
  constructor(said: string) {
    super(`packages could not be installed: ${said.slice(-2000)}`);
    this.said = said;
  }

  /** What the author of the code is to blame for; a registry that does not answer is our trouble. */
  asProblem(packages: Bundle['packages']): Error {
    if (
      !/ERR_PNPM_(FETCH_404|NO_MATCHING_VERSION|NO_VERSIONS|SPEC_NOT_SUPPORTED|INVALID)|is not in the npm registry|No matching version|404/.test(
        this.said,
      )
    ) {
      return unavailable('The npm registry cannot be reached at the moment.');
    }
    const all = Object.values(packages);
    const named = all.filter(({ name }) => this.said.includes(name));
    const [first = all[0]!] = named.length > 0 ? named : all;
    const version = first.version === 'latest' ? '' : `@${first.version}`;
    return invalidComponent(`The package ${first.name}${version} cannot be had from the npm registry.`);
  }
}
