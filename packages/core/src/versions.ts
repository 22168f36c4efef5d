import semver from 'semver';

/** Any notation that npm accepts, such as `v1.0.0`. */
export const isVersion = (text: string): boolean => semver.valid(text) !== null;

/** Only the notation of semver.org, as registry versions must be. */
export function isSemver(text: string): boolean {
  const parsed = semver.parse(text);
  return parsed !== null && text === [parsed.version, parsed.build.join('.')].filter(Boolean).join('+');
}

/** The version may have more or fewer parts than three, as `4.1` or `3.13.7+1`. */
export const isAtLeast = (version: string, minimum: string): boolean =>
  semver.gte(semver.coerce(version) ?? '0.0.0', minimum);

export const isVersionRange = (text: string): boolean => semver.validRange(text, { loose: true }) !== null;

/** The versions in a range, newest first. */
export const versionsInRange = (versions: Iterable<string>, range: string): string[] =>
  [...versions]
    .filter((version) => semver.satisfies(version, range, { loose: true }))
    .sort((a, b) => semver.rcompare(a, b, true));

/** Orders semantic versions, the newest first. */
export const byVersion = (a: string, b: string): number => semver.rcompare(a, b);

/**
 * The newest row whose version is in a range; without a range, the highest release, or else the highest prerelease.
 * Versions that are not semantic are in no range.
 */
export function newestOf<T extends { version: string }>(rows: readonly T[], range?: string): T | undefined {
  const candidates = rows.filter(({ version }) =>
    range === undefined ? isSemver(version) : range.trim() !== '' && semver.satisfies(version, range),
  );
  const releases = candidates.filter(({ version }) => semver.prerelease(version) === null);
  return (releases.length > 0 ? releases : candidates).toSorted((a, b) => byVersion(a.version, b.version))[0];
}

/** @returns a function that gives the test of a range. Each version is parsed once. */
export function createRangeTests(): (range: string) => (version: { version: string }) => boolean {
  const parsed = new Map<{ version: string }, semver.SemVer>();
  const parse = (version: { version: string }) => {
    const known = parsed.get(version) ?? new semver.SemVer(version.version, true);
    parsed.set(version, known);
    return known;
  };
  return (text) => {
    try {
      const range = new semver.Range(text, { loose: true });
      return (version) => range.test(parse(version));
    } catch {
      // Not a range, e.g. a tag: matches no version.
      return () => false;
    }
  };
}

/**
 * @returns the newest of these versions that is not newer than a limit, releases before prereleases. The versions are
 * sorted once: a hostile packument has as many tags as versions.
 */
export function newestUpTo(versions: readonly string[]): (limit: string) => string | undefined {
  const sorted = versions.map((version) => new semver.SemVer(version, true)).sort(semver.compare);
  const releases = sorted.filter(({ prerelease }) => prerelease.length === 0);
  return (text) => {
    const limit = new semver.SemVer(text, true);
    const newest = (list: readonly semver.SemVer[]) => {
      let [low, high] = [0, list.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (list[middle]!.compare(limit) <= 0) low = middle + 1;
        else high = middle;
      }
      return list[low - 1]?.raw;
    };
    const all = newest(sorted);
    return limit.prerelease.length > 0 ? all : (newest(releases) ?? all);
  };
}
