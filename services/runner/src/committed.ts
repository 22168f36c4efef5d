/**
 * The newest committed runs of a source, as its state lists them, limited per shard: one shard may fall far behind the
 * others and then be redelivered. Runs of one emitted message share a stem and are numbered (see RunJob), so they are
 * one entry: `<stem>-0..199,201..300`. With concurrency an entry starts with its shard: `<shard>#<run id>`.
 */

type Range = [first: number, last: number];

const NUMBERED = /^(.+)-(\d{1,9})$/;

function split(runId: string): { stem: string; n: number } | undefined {
  const parts = NUMBERED.exec(runId);
  return parts ? { stem: parts[1]!, n: Number(parts[2]) } : undefined;
}

const entryOf = (committed: readonly string[], stem: string) =>
  committed.findLast((entry) => entry.startsWith(`${stem}-`));

const rangesOf = (entry: string, stem: string): Range[] =>
  entry
    .slice(stem.length + 1)
    .split(',')
    .map((text) => {
      const [first, last = first] = text.split('..').map(Number);
      return [first!, last!];
    });

const named = (runId: string, shard: string) => (shard === '' ? runId : `${shard}#${runId}`);

/** @param shard of the ordering key; '' without concurrency */
export function isCommitted(committed: readonly string[], runId: string, shard = ''): boolean {
  const name = named(runId, shard);
  const numbered = split(name);
  // `includes` is several times slower on strings, and every run asks twice.
  if (!numbered) return committed.lastIndexOf(name) !== -1;
  const entry = entryOf(committed, numbered.stem);
  return (
    entry !== undefined &&
    rangesOf(entry, numbered.stem).some(([first, last]) => first <= numbered.n && numbered.n <= last)
  );
}

/** Adds the run as the newest; keeps the `max` newest entries of its shard. */
export function withCommitted(
  committed: readonly string[],
  runId: string,
  max: number,
  shard = '',
): string[] {
  const name = named(runId, shard);
  const numbered = split(name);
  if (!numbered) return newest([...committed, name], shard, max);
  const { stem, n } = numbered;
  const entry = entryOf(committed, stem);
  const ranges = entry === undefined ? [] : rangesOf(entry, stem);
  const text = add(ranges, n)
    .map(([first, last]) => (first === last ? first : `${first}..${last}`))
    .join(',');
  return newest([...committed.filter((other) => other !== entry), `${stem}-${text}`], shard, max);
}

/** Removes the oldest entries of the shard. Called for each run, hence one pass and at most one copy. */
function newest(entries: string[], shard: string, max: number): string[] {
  if (entries.length <= max) return entries;
  const prefix = `${shard}#`;
  const isOurs = (entry: string) => (shard === '' ? !entry.includes('#') : entry.startsWith(prefix));
  let excess = -max;
  for (const entry of entries) if (isOurs(entry)) excess += 1;
  if (excess <= 0) return entries;
  return entries.filter((entry) => excess <= 0 || !isOurs(entry) || excess-- <= 0);
}

function add(ranges: readonly Range[], n: number): Range[] {
  const joined: Range[] = [];
  for (const [first, last] of [...ranges, [n, n] as const].sort(([a], [b]) => a - b)) {
    const before = joined.at(-1);
    if (before && first <= before[1] + 1) before[1] = Math.max(before[1], last);
    else joined.push([first, last]);
  }
  return joined;
}
