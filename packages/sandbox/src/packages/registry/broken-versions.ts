import { createRangeTests } from '@wellspring/core/versions';
import { type Packument, targetOf, type Version } from './packument.ts';

/** Answers of the registry so far. */
export interface KnownPackages {
  packuments: ReadonlyMap<string, Packument>;
  /** Packages that do not exist, with the reason. */
  missing: ReadonlyMap<string, string>;
  isUsable(packument: Packument, version: Version): boolean;
}

/**
 * Maximum of comparisons of a version with a range of about 20 characters: a hostile package can cause the square of
 * its number of versions. Beyond the limit, ranges count as fulfilled, and resolution fails at them.
 */
const MAX_COMPARISONS = 3_000_000;
const COMPARISON_CHARACTERS = 20;

/** A version that becomes unusable when no version fulfils the range. */
interface Dependent {
  packument: Packument;
  version: Version;
  reason: string;
}

interface Range {
  packument: Packument;
  /** Usable versions; those before `at` do not fulfil the range. */
  candidates: readonly Version[];
  at: number;
  /** A version that fulfils it. */
  witness: Version | undefined;
  cost: number;
  fulfils(version: Version): boolean;
  dependents: Dependent[];
}

/**
 * Marks versions as unusable if no usable version fulfils one of their dependencies, transitively. Compares each range
 * with each version at most once.
 * @returns the number of versions that were marked
 */
export function excludeBroken(
  { packuments, missing, isUsable }: KnownPackages,
  maxComparisons = MAX_COMPARISONS,
): number {
  const testOf = createRangeTests();
  const usable = new Map<Packument, Version[]>();
  const ranges = new Map<string, Range>();
  /** Ranges by the version that fulfils them. */
  const fulfilled = new Map<Version, Range[]>();
  const broken: Dependent[] = [];
  let comparisons = 0;

  /** @returns whether a usable version fulfils the range, or the limit of comparisons is reached */
  function advance(range: Range): boolean {
    if (range.witness && !range.packument.unusable.has(range.witness.version)) return true;
    for (; range.at < range.candidates.length; range.at += 1) {
      const version = range.candidates[range.at]!;
      if (range.packument.unusable.has(version.version)) continue;
      comparisons += range.cost;
      if (comparisons > maxComparisons) return true;
      if (!range.fulfils(version)) continue;
      range.witness = version;
      const others = fulfilled.get(version);
      if (others) others.push(range);
      else fulfilled.set(version, [range]);
      return true;
    }
    return false;
  }

  function rangeOf(packument: Packument, text: string): Range {
    const key = `${packument.name}@${text}`;
    let range = ranges.get(key);
    if (!range) {
      // A range that is a version needs no comparison with others.
      const exact = packument.versions.get(text);
      range = {
        packument,
        candidates: exact ? [exact].filter((one) => isUsable(packument, one)) : usable.get(packument)!,
        at: 0,
        witness: undefined,
        cost: Math.ceil((text.length + 1) / COMPARISON_CHARACTERS),
        // A tag moves to the newest version that is left.
        fulfils: packument.tags.has(text) ? () => true : testOf(text),
        dependents: [],
      };
      ranges.set(key, range);
    }
    return range;
  }

  function reasonOf(packument: Packument, version: Version): string | undefined {
    const { dependencies, optionalDependencies, peerDependencies, peerDependenciesMeta } = version;
    const peers = Object.entries(peerDependencies).filter(([name]) => !peerDependenciesMeta[name]?.optional);
    for (const [alias, specifier] of [...Object.entries(dependencies), ...peers]) {
      if (alias in optionalDependencies) continue;
      const { name, range: text } = targetOf(alias, specifier);
      const absent = missing.get(name);
      if (absent !== undefined) return `it depends on ${name}, which ${absent}`;
      const target = packuments.get(name);
      if (!target) continue;
      const reason = `it depends on ${name}@${text}, of which no version can be used`;
      const range = rangeOf(target, text);
      if (!advance(range)) return reason;
      range.dependents.push({ packument, version, reason });
    }
    return undefined;
  }

  for (const packument of packuments.values()) {
    // Most ranges are fulfilled by the newest version.
    const versions = [...packument.versions.values()].reverse();
    usable.set(
      packument,
      versions.filter((version) => isUsable(packument, version)),
    );
  }
  for (const [packument, versions] of usable) {
    for (const version of versions) {
      const reason = reasonOf(packument, version);
      if (reason !== undefined) broken.push({ packument, version, reason });
    }
  }
  let excluded = 0;
  for (const { packument, version, reason } of broken) {
    if (packument.unusable.has(version.version)) continue;
    packument.unusable.set(version.version, reason);
    excluded += 1;
    for (const range of fulfilled.get(version) ?? []) if (!advance(range)) broken.push(...range.dependents);
  }
  return excluded;
}
