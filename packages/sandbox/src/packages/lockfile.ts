import type { Bundle } from '@wellspring/contract/definition';
import { invalidComponent } from '@wellspring/core/problem';
import { parse } from 'yaml';
import { isRegistrySpecifier, PACKAGE_NAME } from './registry/packument.ts';

/** A lockfile that contains only tarballs of registries, each with its integrity. */
export interface VerifiedLockfile {
  /** Lockfile with the verified fields only, as JSON, which all YAML parsers read alike. */
  text: string;
  /** Integrity by `name@version`. */
  tarballs: Map<string, string>;
}

const MAX_BYTES = 16 * 1024 * 1024;
const INTEGRITY = /^(?:sha(?:1|256|384|512)-[A-Za-z0-9+/]+={0,2}\s*)+$/;
const VERSION = /^\d[\w.+-]{0,255}$/;

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const entriesOf = (value: unknown): [string, unknown][] => (isRecord(value) ? Object.entries(value) : []);

/** `@scope/name@1.0.0(peer@2.0.0)` → its name and version, without the peers. */
function splitId(id: string): { name: string; version: string } | undefined {
  const plain = id.split('(')[0] ?? '';
  const at = plain.lastIndexOf('@');
  const [name, version] = [plain.slice(0, at), plain.slice(at + 1)];
  return at > 0 && PACKAGE_NAME.test(name) && VERSION.test(version) ? { name, version } : undefined;
}

/** `name@version` that a dependency of a snapshot refers to. */
function referenceOf(alias: string, reference: unknown): string | undefined {
  if (typeof reference !== 'string' || !PACKAGE_NAME.test(alias)) return undefined;
  const plain = reference.split('(')[0] ?? '';
  if (VERSION.test(plain)) return `${alias}@${plain}`;
  const target = splitId(plain);
  return target && `${target.name}@${target.version}`;
}

const quote = (value: unknown) => JSON.stringify(value)?.slice(0, 200) ?? 'nothing';

const refuse = (who: string, what: string) =>
  invalidComponent(`${who} depends on ${what}; only packages of the registry can be used.`);

/**
 * @param packages packages of the bundle, all of which the lockfile must contain
 * @throws Problem 400 that names a dependency which is not a tarball of a registry, and its dependent
 */
export function verifyLockfile(text: string, packages: Bundle['packages']): VerifiedLockfile {
  const damaged = (why: string) => invalidComponent(`The lockfile of the packages is not valid: ${why}.`);
  if (text.length > MAX_BYTES) throw damaged('it is too large');
  let lock: unknown;
  try {
    lock = parse(text, { maxAliasCount: 0, uniqueKeys: true, schema: 'core' });
  } catch (error) {
    throw damaged((error as Error).message.split('\n')[0]!.slice(0, 200));
  }
  if (!isRecord(lock) || !/^9\.\d+$/.test(String(lock.lockfileVersion)))
    throw damaged('it does not have version 9');
  for (const key of [
    'overrides',
    'patchedDependencies',
    'pnpmfileChecksum',
    'catalogs',
    'packageExtensionsChecksum',
  ])
    if (key in lock) throw damaged(`it contains ${key}`);

  const tarballs = new Map<string, string>();
  const verified: Record<string, unknown> = {};
  for (const [id, entry] of entriesOf(lock.packages)) {
    const split = splitId(id);
    const resolution = isRecord(entry) ? entry.resolution : undefined;
    if (!split) throw refuse('A package', quote(id));
    if (
      !isRecord(resolution) ||
      typeof resolution.integrity !== 'string' ||
      !INTEGRITY.test(resolution.integrity)
    )
      throw refuse('A package', `${id}, which resolves to ${quote(resolution)}`);
    const others = Object.keys(resolution).filter((key) => key !== 'integrity');
    if (others.length > 0) throw refuse('A package', `${id}, which resolves to ${quote(resolution)}`);
    tarballs.set(`${split.name}@${split.version}`, resolution.integrity);
    verified[id] = { ...(entry as object), resolution: { integrity: resolution.integrity } };
  }

  const checkAll = (who: string, lists: unknown[]) => {
    for (const [alias, reference] of lists.flatMap(entriesOf)) {
      const target = referenceOf(alias, reference);
      if (target === undefined || !tarballs.has(target)) throw refuse(who, `${alias}@${quote(reference)}`);
    }
  };
  for (const [id, entry] of entriesOf(lock.snapshots)) {
    const split = splitId(id);
    if (!split || !tarballs.has(`${split.name}@${split.version}`)) throw refuse('A package', quote(id));
    const { dependencies, optionalDependencies } = isRecord(entry) ? entry : {};
    checkAll(`The package ${split.name}@${split.version}`, [dependencies, optionalDependencies]);
  }

  const importers = entriesOf(lock.importers);
  const [only] = importers;
  if (importers.length !== 1 || only?.[0] !== '.' || !isRecord(only[1]))
    throw damaged('it is of a workspace');
  const roots = entriesOf(only[1].dependencies);
  if (Object.keys(only[1]).some((key) => key !== 'dependencies'))
    throw damaged('it locks other dependencies');
  for (const [alias, root] of roots) {
    const { specifier, version } = isRecord(root) ? root : {};
    if (!Object.hasOwn(packages, alias)) throw damaged(`it locks ${quote(alias)}, which is not imported`);
    if (typeof specifier !== 'string' || !isRegistrySpecifier(specifier))
      throw refuse('The component', `${alias}@${quote(specifier)}`);
    checkAll('The component', [{ [alias]: version }]);
  }
  for (const alias of Object.keys(packages))
    if (!roots.some(([name]) => name === alias)) throw damaged(`it does not lock ${alias}`);

  const { lockfileVersion } = lock;
  const settings = Object.fromEntries(
    entriesOf(lock.settings).filter(([, value]) => typeof value === 'boolean'),
  );
  const result = {
    lockfileVersion: String(lockfileVersion),
    settings,
    importers: { '.': { dependencies: only[1].dependencies } },
    packages: verified,
    snapshots: lock.snapshots ?? {},
  };
  return { text: JSON.stringify(result), tarballs };
}
