import { isVersion, isVersionRange, versionsInRange } from '@wellspring/core/versions';

/** A version of a package: fields that resolution needs. */
export interface Version {
  version: string;
  dependencies: Record<string, string>;
  optionalDependencies: Record<string, string>;
  peerDependencies: Record<string, string>;
  peerDependenciesMeta: Record<string, { optional: boolean }>;
  /** Fields that are passed on unchanged. */
  rest: Record<string, unknown>;
  integrity: string;
  /** URL from the registry. */
  tarball: string;
  /** A dependency that is not a package of the registry; not in the lists above. */
  foreign: { name: string; specifier: string } | undefined;
  /** Epoch milliseconds; undefined if it is unknown. */
  publishedAt: number | undefined;
}

/** A package and its versions, from the registry. */
export interface Packument {
  name: string;
  versions: Map<string, Version>;
  tags: Map<string, string>;
  /** Versions that cannot be installed, with the reason. */
  unusable: Map<string, string>;
  /** Epoch milliseconds of the last change; undefined if it is unknown. */
  modifiedAt: number | undefined;
  hasTimes: boolean;
}

export const PACKAGE_NAME = /^(?:@[a-z0-9~_-][a-z0-9._~-]*\/)?[a-z0-9~_-][a-z0-9._~-]*$/i;
const TAG = /^[a-z][\w.-]{0,99}$/i;
const INTEGRITY = /^(?:sha(?:1|256|384|512)-[A-Za-z0-9+/]+={0,2}\s*)+$/;
const MAX_SPECIFIER_LENGTH = 500;

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isRange = (text: string) =>
  text.length <= MAX_SPECIFIER_LENGTH &&
  (isVersionRange(text) || (TAG.test(text) && !/\.(tgz|tar|tar\.gz)$/i.test(text)));

/** Whether the registry can resolve it: a range, a tag or an `npm:` alias. */
export function isRegistrySpecifier(specifier: string): boolean {
  const alias = /^npm:((?:@[^/@]+\/)?[^/@]+)(?:@(.*))?$/s.exec(specifier);
  if (!alias) return isRange(specifier);
  return PACKAGE_NAME.test(alias[1]!) && isRange(alias[2] ?? '');
}

/** The package and range of a specifier, with `npm:` aliases resolved. */
export function targetOf(name: string, specifier: string): { name: string; range: string } {
  const alias = /^npm:((?:@[^/@]+\/)?[^/@]+)(?:@(.*))?$/s.exec(specifier);
  return alias ? { name: alias[1]!, range: alias[2] ?? '' } : { name, range: specifier };
}

/** Versions that match a range or a tag, newest first, including unusable ones. */
export function matching({ versions, unusable, tags }: Packument, range: string): string[] {
  const tagged = tags.get(range);
  if (tagged !== undefined) return [tagged];
  return versionsInRange(new Set([...versions.keys(), ...unusable.keys()]), range);
}

/** Splits dependencies into those of the registry and the first other one. */
function dependenciesOf(value: unknown): { own: Record<string, string>; foreign: Version['foreign'] } {
  const own: Record<string, string> = Object.create(null);
  let foreign: Version['foreign'];
  for (const [name, specifier] of isRecord(value) ? Object.entries(value) : []) {
    if (typeof specifier === 'string' && PACKAGE_NAME.test(name) && isRegistrySpecifier(specifier.trim()))
      own[name] = specifier.trim();
    else foreign ??= { name: name.slice(0, 214), specifier: String(specifier).slice(0, 200) };
  }
  return { own, foreign };
}

function optionalPeers(value: unknown): Version['peerDependenciesMeta'] {
  const entries = Object.entries(isRecord(value) ? value : {});
  return Object.fromEntries(
    entries.map(([name, meta]) => [name, { optional: isRecord(meta) && meta.optional === true }]),
  );
}

/** `integrity`, or `shasum` in the same format; undefined if neither is valid. */
function integrityOf(dist: Record<string, unknown>): string | undefined {
  const { integrity, shasum } = dist;
  if (typeof integrity === 'string') return INTEGRITY.test(integrity) ? integrity.trim() : undefined;
  if (typeof shasum === 'string' && /^[0-9a-f]{40}$/i.test(shasum))
    return `sha1-${Buffer.from(shasum, 'hex').toString('base64')}`;
  return undefined;
}

/** Others, such as `engines.runtime`, make the package manager download a runtime. */
const ENGINES = ['node', 'npm', 'pnpm'];

const enginesOf = (value: unknown) =>
  isRecord(value)
    ? Object.fromEntries(
        Object.entries(value).filter(([name, range]) => ENGINES.includes(name) && typeof range === 'string'),
      )
    : {};

const PASSED_ON = ['os', 'cpu', 'libc', 'deprecated', 'bundleDependencies', 'bundledDependencies'];

function readVersion(manifest: Record<string, unknown>, version: string, time: unknown): Version | string {
  const dist = isRecord(manifest.dist) ? manifest.dist : {};
  const integrity = integrityOf(dist);
  if (integrity === undefined) return 'the registry gives no valid integrity for its tarball';
  if (typeof dist.tarball !== 'string' || !URL.canParse(dist.tarball)) return 'the registry names no tarball';
  const required = dependenciesOf(manifest.dependencies);
  const optional = dependenciesOf(manifest.optionalDependencies);
  const peers = dependenciesOf(manifest.peerDependencies);
  const published = typeof time === 'string' ? Date.parse(time) : Number.NaN;
  return {
    version,
    dependencies: required.own,
    optionalDependencies: optional.own,
    peerDependencies: peers.own,
    peerDependenciesMeta: optionalPeers(manifest.peerDependenciesMeta),
    rest: {
      engines: enginesOf(manifest.engines),
      ...Object.fromEntries(
        PASSED_ON.flatMap((key) => (manifest[key] === undefined ? [] : [[key, manifest[key]]])),
      ),
    },
    integrity,
    tarball: dist.tarball,
    foreign: required.foreign ?? optional.foreign ?? peers.foreign,
    publishedAt: Number.isNaN(published) ? undefined : published,
  };
}

/** Parses the answer of a registry. @throws Error if it is not a packument of this package */
export function readPackument(name: string, json: string): Packument {
  const value: unknown = JSON.parse(json);
  if (!isRecord(value) || value.name !== name || !isRecord(value.versions))
    throw new Error(`The registry did not answer with the versions of ${name}`);
  const times = isRecord(value.time) ? value.time : {};
  const versions = new Map<string, Version>();
  const unusable = new Map<string, string>();
  for (const [version, manifest] of Object.entries(value.versions)) {
    if (!isVersion(version) || !isRecord(manifest)) continue;
    const read = readVersion(manifest, version, times[version]);
    if (typeof read === 'string') unusable.set(version, read);
    else versions.set(version, read);
  }
  const tags = new Map<string, string>();
  for (const [tag, version] of Object.entries(isRecord(value['dist-tags']) ? value['dist-tags'] : {}))
    if (typeof version === 'string' && isVersion(version)) tags.set(tag, version);
  const modified = typeof value.modified === 'string' ? value.modified : times.modified;
  const modifiedAt = typeof modified === 'string' ? Date.parse(modified) : Number.NaN;
  return {
    name,
    versions,
    tags,
    unusable,
    modifiedAt: Number.isNaN(modifiedAt) ? undefined : modifiedAt,
    hasTimes: [...versions.values()].some(({ publishedAt }) => publishedAt !== undefined),
  };
}
