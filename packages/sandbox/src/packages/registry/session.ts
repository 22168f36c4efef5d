import { newestUpTo } from '@wellspring/core/versions';
import { excludeBroken } from './broken-versions.ts';
import { matching, type Packument, readPackument, type Version } from './packument.ts';
import type { PackumentTexts } from './packument-texts.ts';
import type { RegistrySettings } from './settings.ts';
import { RegistryRefused, RegistryStatus } from './upstream.ts';

/** State of one resolution or installation: answers of the registry, and excluded versions. */
export interface Session {
  /**
   * The packument for the package manager; URLs of tarballs are below `base`. @throws RegistryStatus, RegistryRefused,
   * Error
   */
  packument(name: string, base: string): Promise<object>;
  /** @returns the version, and the URL of its tarball */
  tarball(name: string, version: string): Promise<{ version: Version; url: string }>;
  /** Marks a version as unusable. */
  exclude(name: string, version: string, reason: string): void;
  /**
   * Excludes versions whose dependencies are known not to exist. If there are none, admits versions that are too young,
   * unless the settings forbid it.
   * @returns whether another resolution may have another result: versions were excluded or admitted since the last call
   */
  mayResolveOtherwise(): boolean;
  foreignDependency(name: string, version: string): Version['foreign'];
  /** A sentence that explains why no version of this package can be used; undefined if a version can be used. */
  explain(name: string, range: string): string | undefined;
  /** A request to the registry failed, and a later one may not. */
  setUnreachable(): void;
  /** Whether there was such a request. */
  readonly unreachable: boolean;
  /** Whether a packument was used that had been fetched before: it may lack a version that was published since. */
  readonly mayBeOutdated: boolean;
}

const MAX_PACKUMENTS = 3000;
const MAX_NAMED_VERSIONS = 5;
const ABBREVIATED = 'application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8';
const FULL = 'application/json';
const NPM_HOST = 'registry.npmjs.org';

export interface SessionOptions {
  settings: RegistrySettings;
  texts: PackumentTexts;
  now: number;
  /** Packuments are fetched, even if they are kept. */
  fresh: boolean;
}

export function createSession({ settings, texts, now, fresh }: SessionOptions): Session {
  const requested = new Map<string, Promise<Packument>>();
  const known = new Map<string, Packument>();
  const missing = new Map<string, string>();
  let unreachable = false;
  let mayBeOutdated = false;
  let admitYoung = false;
  /** Versions that were excluded since the last resolution. */
  let excluded = 0;
  const cutoff = Math.min(now - settings.minimumAgeMs, settings.before ?? Number.POSITIVE_INFINITY);
  const hasCutoff = settings.minimumAgeMs > 0 || settings.before !== undefined;

  const urlOf = (name: string) => settings.registryOf(name) + name.replace('/', '%2f');

  async function fetchPackument(name: string, refetch: boolean): Promise<Packument> {
    if (requested.size > MAX_PACKUMENTS) throw new RegistryRefused('too many packages are requested');
    const read = async (accept: string) => {
      const { text, isKept } = await texts.get(urlOf(name), { accept, fresh: fresh || refetch });
      mayBeOutdated ||= isKept;
      return readPackument(name, text);
    };
    try {
      let packument = await read(ABBREVIATED);
      const maybeYoung = packument.modifiedAt === undefined || packument.modifiedAt > cutoff;
      if (hasCutoff && maybeYoung && !packument.hasTimes) packument = await read(FULL);
      for (const { version, tarball } of packument.versions.values())
        if (tarballUrl(name, tarball) === undefined)
          packument.unusable.set(version, `its tarball is on another host, ${new URL(tarball).host}`);
      known.set(name, packument);
      return packument;
    } catch (error) {
      if (error instanceof RegistryStatus && error.isPermanent)
        missing.set(
          name,
          [404, 405, 410].includes(error.status)
            ? 'was not found in the npm registry'
            : `was refused by the npm registry (status ${error.status})`,
        );
      else if (error instanceof RegistryRefused) missing.set(name, `cannot be used: ${error.message}`);
      else unreachable = true;
      throw error;
    }
  }

  function packumentOf(name: string, refetch = false): Promise<Packument> {
    let request = requested.get(name);
    if (!request || refetch) {
      request = fetchPackument(name, refetch);
      requested.set(name, request);
      request.catch(() => {});
    }
    return request;
  }

  /** URL of a tarball at the host of the registry; undefined if the tarball is on another host. */
  function tarballUrl(name: string, tarball: string): string | undefined {
    const registry = new URL(settings.registryOf(name));
    const { host, pathname, search } = new URL(tarball);
    if (host !== registry.host && host !== NPM_HOST) return undefined;
    const url = new URL(registry);
    // Mirrors often serve unchanged packuments of the npm registry. The path is concatenated: resolved as a reference,
    // `//host/` or `http://host/` in it would change the host.
    url.pathname = host === registry.host ? pathname : registry.pathname + pathname.slice(1);
    url.search = search;
    return url.href;
  }

  function whyNot({ unusable }: Packument, { version, publishedAt }: Version): string | undefined {
    const reason = unusable.get(version);
    if (reason !== undefined) return reason;
    if (!hasCutoff || admitYoung || publishedAt === undefined || publishedAt <= cutoff) return undefined;
    return `it was published on ${new Date(publishedAt).toISOString()}, which the minimum release age forbids`;
  }

  const usable = (packument: Packument) =>
    [...packument.versions.values()].filter((version) => whyNot(packument, version) === undefined);

  function hasMatch(packument: Packument, range: string, versions: readonly Version[]): boolean {
    const names = new Set(versions.map(({ version }) => version));
    // A tag moves to the newest version that is left.
    if (packument.tags.has(range)) return names.size > 0;
    return matching(packument, range).some((version) => names.has(version));
  }

  return {
    async packument(name, base) {
      const packument = await packumentOf(name);
      const versions = usable(packument);
      const names = new Set(versions.map(({ version }) => version));
      const newest = newestUpTo([...names]);
      const tags: [string, string][] = [];
      for (const [tag, version] of packument.tags) {
        const target = names.has(version) ? version : newest(version);
        if (target !== undefined) tags.push([tag, target]);
      }
      const basename = name.split('/').at(-1);
      return {
        name,
        'dist-tags': Object.fromEntries(tags),
        versions: Object.fromEntries(
          versions.map(({ version, rest, integrity, ...lists }) => [
            version,
            {
              ...rest,
              name,
              version,
              dependencies: lists.dependencies,
              optionalDependencies: lists.optionalDependencies,
              peerDependencies: lists.peerDependencies,
              peerDependenciesMeta: lists.peerDependenciesMeta,
              dist: { integrity, tarball: `${base}${name}/-/${basename}-${version}.tgz` },
            },
          ]),
        ),
      };
    },
    async tarball(name, version) {
      let found = (await packumentOf(name)).versions.get(version);
      if (!found && mayBeOutdated) found = (await packumentOf(name, true)).versions.get(version);
      const url = found && tarballUrl(name, found.tarball);
      if (!found || url === undefined) throw new RegistryStatus(404);
      return { version: found, url };
    },
    exclude(name, version, reason) {
      const packument = known.get(name);
      if (!packument || packument.unusable.has(version)) return;
      packument.unusable.set(version, reason);
      excluded += 1;
    },
    mayResolveOtherwise() {
      excluded += excludeBroken({
        packuments: known,
        missing,
        isUsable: (packument, version) => whyNot(packument, version) === undefined,
      });
      const hasExcluded = excluded > 0;
      excluded = 0;
      if (hasExcluded) return true;
      const admits = hasCutoff && !settings.strictAge && settings.before === undefined && !admitYoung;
      admitYoung ||= admits;
      return admits;
    },
    foreignDependency: (name, version) => known.get(name)?.versions.get(version)?.foreign,
    explain(name, range) {
      const reason = missing.get(name);
      if (reason !== undefined) return `The package ${name} ${reason}.`;
      const packument = known.get(name);
      if (!packument || hasMatch(packument, range, usable(packument))) return undefined;
      const asked = range === '' || range === 'latest' ? name : `${name}@${range}`;
      // A tag would have moved to any version that can be used.
      const names = packument.tags.has(range) ? matching(packument, '*') : matching(packument, range);
      const tried = names.flatMap((version) => {
        const found = packument.versions.get(version);
        const why = packument.unusable.get(version) ?? (found && whyNot(packument, found));
        return why === undefined ? [] : [`${version} (${why})`];
      });
      if (tried.length === 0) return `No version of ${asked} was found in the npm registry.`;
      const more = tried.length - MAX_NAMED_VERSIONS;
      const list = tried.slice(0, MAX_NAMED_VERSIONS).join('; ') + (more > 0 ? `; and ${more} more` : '');
      return `No version of ${asked} can be used. Tried: ${list}.`;
    },
    setUnreachable() {
      unreachable = true;
    },
    get unreachable() {
      return unreachable;
    },
    get mayBeOutdated() {
      return mayBeOutdated;
    },
  };
}
