/**
 * The newest runs that a source has committed, as its state keeps them: so many of each of its lanes, since a lane may
 * wait for its process while the others go on, and be handed out again after all that. The runs that one announcement
 * led to share a stem and are numbered (see RunJob), so all of them are one entry, however many there are:
 * `<stem>-0..199,201..300`. The entries of a source with concurrency begin with their lane: `<slot>#<run id>`.
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

const named = (runId: string, slot: string) => (slot === '' ? runId : `${slot}#${runId}`);

/** Whether the run is among them. @param slot of the lane that it came by; '' without concurrency */
export function isCommitted(committed: readonly string[], runId: string, slot = ''): boolean {
  const name = named(runId, slot);
  const numbered = split(name);
  // Not `includes`, which is several times slower on texts: every run asks twice.
  if (!numbered) return committed.lastIndexOf(name) !== -1;
  const entry = entryOf(committed, numbered.stem);
  return (
    entry !== undefined &&
    rangesOf(entry, numbered.stem).some(([first, last]) => first <= numbered.n && numbered.n <= last)
  );
}

/** With this run as the newest one; of its lane, `most` entries are kept. */
export function withCommitted(
  committed: readonly string[],
  runId: string,
  most: number,
  slot = '',
): string[] {
  const name = named(runId, slot);
  const numbered = split(name);
  if (!numbered) return newest([...committed, name], slot, most);
  const { stem, n } = numbered;
  const entry = entryOf(committed, stem);
  const ranges = entry === undefined ? [] : rangesOf(entry, stem);
  const text = add(ranges, n)
    .map(([first, last]) => (first === last ? first : `${first}..${last}`))
    .join(',');
  return newest([...committed.filter((other) => other !== entry), `${stem}-${text}`], slot, most);
}

/** Without the oldest entries of the lane. Each run pays for this: one pass, and one copy at the most. */
function newest(entries: string[], slot: string, most: number): string[] {
  if (entries.length <= most) return entries;
  const prefix = `${slot}#`;
  const isOurs = (entry: string) => (slot === '' ? !entry.includes('#') : entry.startsWith(prefix));
  let excess = -most;
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
