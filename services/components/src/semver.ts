/** Semantic versions 2.0.0, as registry versions must be. */
const SEMVER =
  /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?$/;

export const isSemver = (text: string): boolean => text.length <= 256 && SEMVER.test(text);

/** Negative when `a` precedes `b` (semver.org, 11), positive the other way round; 0 when only the builds differ. */
export function compareSemver(a: string, b: string): number {
  const [, ...left] = SEMVER.exec(a) ?? [];
  const [, ...right] = SEMVER.exec(b) ?? [];
  for (let i = 0; i < 3; i++) {
    const order = compareNumbers(left[i] ?? '0', right[i] ?? '0');
    if (order !== 0) return order;
  }
  const [pre, other] = [left[3], right[3]];
  if (pre === undefined || other === undefined)
    return Number(other !== undefined) - Number(pre !== undefined);
  return comparePrereleases(pre.split('.'), other.split('.'));
}

function comparePrereleases(a: string[], b: string[]): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const [left, right] = [a[i]!, b[i]!];
    if (left === right) continue;
    const numeric = [left, right].map((part) => /^\d+$/.test(part));
    if (numeric[0] && numeric[1]) return compareNumbers(left, right);
    // Numbers come before words.
    if (numeric[0] !== numeric[1]) return numeric[0] ? -1 : 1;
    return left < right ? -1 : 1;
  }
  return a.length - b.length;
}

/** Digits without leading zeros, of any length. */
const compareNumbers = (a: string, b: string) => a.length - b.length || (a < b ? -1 : a > b ? 1 : 0);

const isPrerelease = (version: string) => SEMVER.exec(version)?.[4] !== undefined;

/** The version that somebody who names none gets: the highest release, or else the highest prerelease. */
export function newestVersion<T extends { version: string }>(rows: readonly T[]): T | undefined {
  const releases = rows.filter(({ version }) => !isPrerelease(version));
  return [...(releases.length > 0 ? releases : rows)].sort((a, b) => compareSemver(b.version, a.version))[0];
}
