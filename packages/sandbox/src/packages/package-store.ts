import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import type { Bundle } from '@wellspring/contract/definition';
import { createLru } from '@wellspring/core/lru';
import { invalidComponent, type Problem, unavailable } from '@wellspring/core/problem';
import { InstallFailed, runInstaller } from './installer.ts';
import type { Jail } from './jail/jail.ts';
import { type VerifiedLockfile, verifyLockfile } from './lockfile.ts';
import { createPackageDisk } from './package-disk.ts';
import type { Gateway } from './registry/gateway.ts';
import type { Session } from './registry/session.ts';

type Locked = Pick<Bundle, 'packages' | 'lockfile'>;

/** npm packages of components: one directory below `sets/` per set of packages. */
export interface PackageStore {
  /**
   * Resolves versions and installs them. A version that cannot be installed is excluded, and resolution repeated. Equal
   * packages resolve to the same versions for five minutes: components published in bulk share resolutions.
   * @param ownerId owner whose share of the disk an installation uses
   * @returns the lockfile; null: no packages
   * @throws Problem 400 that names the unusable package, or the share; 503 if the registry does not answer
   */
  settle(packages: Bundle['packages'], ownerId: string): Promise<string | null>;
  /** The node_modules directory of these packages, marked as used; undefined if it is not installed. */
  find(bundle: Locked): Promise<string | undefined>;
  /**
   * As `find`, but installs missing packages.
   * @throws Problem 400 if the lockfile contains anything except tarballs of the registry; 503 as above
   */
  provide(bundle: Locked, ownerId: string): Promise<string>;
  /** Aborts installations. */
  close(): Promise<void>;
}

/** Maximum of resolutions, each without the versions that proved unusable. */
const MAX_ATTEMPTS = 12;
/** Time limit of all resolutions together. An installation that has begun is completed. */
const SETTLE_MS = 60_000;
/** Time for which a resolution is reused; registries tell clients to keep packuments as long. */
const REUSE_MS = 5 * 60_000;
const MAX_REUSED = 500;

interface Resolution {
  lockfile: Promise<string>;
  at: number;
}

export interface PackageStoreOptions {
  /** Parent of `sets/` and `tarballs/`. */
  directory: string;
  jail: Jail;
  gateway: Gateway;
  now(): number;
}

export function createPackageStore({ directory, jail, gateway, now }: PackageStoreOptions): PackageStore {
  const sets = join(directory, 'sets');
  const disk = createPackageDisk(directory, now);
  const installing = new Map<string, Promise<string>>();
  /** By set of packages. Only successful and current resolutions. */
  const resolutions = createLru<Resolution>(MAX_REUSED);
  const stop = new AbortController();

  const keyOf = ({ packages, lockfile }: Locked) =>
    createHash('sha256')
      .update(
        JSON.stringify([Object.entries(packages).sort(), lockfile, process.versions.modules, process.arch]),
      )
      .digest('hex')
      .slice(0, 32);

  const manifestOf = (packages: Bundle['packages']) =>
    JSON.stringify({
      name: 'component',
      private: true,
      dependencies: Object.fromEntries(
        Object.entries(packages).map(([alias, { name, version }]) => [
          alias,
          alias === name ? version : `npm:${name}@${version}`,
        ]),
      ),
    });

  async function resolve(
    packages: Bundle['packages'],
    session: Session,
    signal: AbortSignal,
  ): Promise<string> {
    const open = gateway.open({ session });
    try {
      const request = { stage: 'resolve', manifest: manifestOf(packages), lockfile: null } as const;
      return await runInstaller(jail, { ...request, token: open.token }, undefined, signal);
    } finally {
      open.close();
    }
  }

  /** Checks the lockfile before anything is fetched, since the package manager is not trusted. */
  function verify(text: string, packages: Bundle['packages'], session: Session): VerifiedLockfile {
    const verified = verifyLockfile(text, packages);
    for (const id of verified.tarballs.keys()) {
      const at = id.lastIndexOf('@');
      const foreign = session.foreignDependency(id.slice(0, at), id.slice(at + 1));
      if (foreign)
        throw invalidComponent(
          `The package ${id} depends on ${foreign.name}@${foreign.specifier}; only packages of the registry can be used.`,
        );
    }
    return verified;
  }

  async function find(bundle: Locked): Promise<string | undefined> {
    const home = join(sets, keyOf(bundle));
    try {
      // `collect` reads the time of the last use.
      await utimes(home, now() / 1000, now() / 1000);
      return join(home, 'node_modules');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
  }

  async function install(
    bundle: Locked,
    verified: VerifiedLockfile,
    ownerId: string,
    session?: Session,
  ): Promise<string> {
    const found = await find(bundle);
    if (found !== undefined) return found;
    const home = join(sets, keyOf(bundle));
    const temporary = join(sets, `${randomBytes(8).toString('hex')}.part`);
    const room = await disk.open(ownerId, temporary);
    await mkdir(join(temporary, 'node_modules'), { recursive: true });
    const open = gateway.open({ tarballs: verified.tarballs, room, ...(session ? { session } : {}) });
    try {
      const request = {
        stage: 'install',
        manifest: manifestOf(bundle.packages),
        lockfile: verified.text,
      } as const;
      const target = { directory: join(temporary, 'node_modules'), room };
      await runInstaller(jail, { ...request, token: open.token }, target, stop.signal);
      await disk.sign(temporary, ownerId);
      await rename(temporary, home).catch((error: unknown) => {
        // Another process of the platform has installed the same set.
        if (!existsSync(home)) throw error;
      });
      return join(home, 'node_modules');
    } catch (error) {
      if (room.exceeded) throw room.exceeded;
      throw error instanceof InstallFailed && open.session.unreachable ? unreachable() : error;
    } finally {
      open.close();
      await rm(temporary, { recursive: true, force: true });
    }
  }

  /** Shares one installation of a set between concurrent callers. */
  function installOnce(
    bundle: Locked,
    verified: VerifiedLockfile,
    ownerId: string,
    session?: Session,
  ): Promise<string> {
    const key = keyOf(bundle);
    let running = installing.get(key);
    if (!running) {
      running = install(bundle, verified, ownerId, session).finally(() => installing.delete(key));
      installing.set(key, running);
    }
    return running;
  }

  function explain(packages: Bundle['packages'], session: Session, failure: InstallFailed): Problem {
    for (const { name, version } of Object.values(packages)) {
      const sentence = session.explain(name, version);
      if (sentence !== undefined) return invalidComponent(sentence);
    }
    if (/ENOSPC|No space left/.test(failure.output)) return invalidComponent('The packages are too large.');
    const names = Object.values(packages).map(({ name, version }) =>
      version === 'latest' ? name : `${name}@${version}`,
    );
    return invalidComponent(`The packages ${names.join(', ')} could not be installed: ${failure.reason}`);
  }

  function newSession(options: { fresh?: boolean } = {}): Session {
    const { session, close } = gateway.open(options);
    close();
    return session;
  }

  async function resolveAndInstall(packages: Bundle['packages'], ownerId: string): Promise<string> {
    let session = newSession();
    const tooLate = AbortSignal.timeout(SETTLE_MS);
    const signal = AbortSignal.any([stop.signal, tooLate]);
    for (let attempt = 1; ; attempt += 1) {
      try {
        const lockfile = await resolve(packages, session, signal);
        const verified = verify(lockfile, packages, session);
        await installOnce({ packages, lockfile }, verified, ownerId, session);
        return lockfile;
      } catch (error) {
        if (!(error instanceof InstallFailed)) throw error;
        if (session.unreachable) throw unreachable();
        const isLast = attempt >= MAX_ATTEMPTS || signal.aborted;
        if (!isLast && session.mayResolveOtherwise()) continue;
        if (isLast || !session.mayBeOutdated) throw explain(packages, session, error);
        session = newSession({ fresh: true });
      }
    }
  }

  /** Concurrent calls share one resolution. */
  function lockfileOf(packages: Bundle['packages'], ownerId: string): Promise<string> {
    const key = JSON.stringify(Object.entries(packages).sort());
    const known = resolutions.get(key);
    if (known && now() - known.at < REUSE_MS) return known.lockfile;
    const resolution = { lockfile: resolveAndInstall(packages, ownerId), at: now() };
    resolutions.set(key, resolution);
    resolution.lockfile.catch(() => {
      if (resolutions.get(key) === resolution) resolutions.delete(key);
    });
    return resolution.lockfile;
  }

  async function provide(bundle: Locked, ownerId: string): Promise<string> {
    if (bundle.lockfile === null) throw new Error('The bundle has packages, but no lockfile');
    const found = await find(bundle);
    return found ?? installOnce(bundle, verifyLockfile(bundle.lockfile, bundle.packages), ownerId);
  }

  return {
    async settle(packages, ownerId) {
      if (Object.keys(packages).length === 0) return null;
      const lockfile = await lockfileOf(packages, ownerId);
      // The set of an earlier resolution may have been removed.
      await provide({ packages, lockfile }, ownerId);
      return lockfile;
    },
    find,
    provide,
    async close() {
      stop.abort();
      await Promise.allSettled(installing.values());
    },
  };
}

const unreachable = () => unavailable('The npm registry cannot be reached at the moment.');
