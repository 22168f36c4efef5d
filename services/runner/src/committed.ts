/**
 * The newest runs that a source has committed, as its state keeps them. The runs that one announcement led to share a
 * stem and are numbered (see RunJob), so all of them are one entry, however many there are: `<stem>-0..199,201..300`.
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

/** Whether the run is among them. */
export function isCommitted(committed: readonly string[], runId: string): boolean {
  const numbered = split(runId);
  if (!numbered) return committed.includes(runId);
  const entry = entryOf(committed, numbered.stem);
  return (
    entry !== undefined &&
    rangesOf(entry, numbered.stem).some(([first, last]) => first <= numbered.n && numbered.n <= last)
  );
}

/** With this run as the newest one; of all entries, `most` are kept. */
export function withCommitted(committed: readonly string[], runId: string, most: number): string[] {
  const numbered = split(runId);
  if (!numbered) return [...committed, runId].slice(-most);
  const { stem, n } = numbered;
  const entry = entryOf(committed, stem);
  const ranges = entry === undefined ? [] : rangesOf(entry, stem);
  const text = add(ranges, n)
    .map(([first, last]) => (first === last ? first : `${first}..${last}`))
    .join(',');
  return [...committed.filter((other) => other !== entry), `${stem}-${text}`].slice(-most);
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
