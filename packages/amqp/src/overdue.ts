/**
 * The messages that were not confirmed in time, and those behind them with the same key: these would overtake the
 * repetition of the former.
 * @param entries in the order of their deadlines, performance.now()
 */
export function* overdue<T extends { deadline: number; key?: string }>(
  entries: Iterable<T>,
  now: number,
): Generator<T> {
  const keys = new Set<string | undefined>();
  for (const entry of entries) {
    const { deadline, key } = entry;
    if (deadline <= now) keys.add(key);
    else if (keys.size === 0) return;
    else if (key === undefined || !keys.has(key)) continue;
    yield entry;
  }
}
