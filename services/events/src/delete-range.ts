import { eventSortKey, parseSortKey } from '@wellspring/core/event-id';
import { delayed } from '@wellspring/store/collections/delayed';
import { events, type LogRow, logs, marksOf } from '@wellspring/store/collections/events';
import type { Store } from '@wellspring/store/port';
import { removeAll } from '@wellspring/store/remove-all';
import { channelOf, eventsWhere } from './channel.ts';

/** Rows of logs that are read at a time. */
const BATCH_SIZE = 500;

/** Sort keys, both inclusive. */
interface Range {
  start: string;
  end: string;
}

/** Deletes a range of a channel in small batches. Events emitted meanwhile are not deleted. */
export async function deleteRange(
  store: Store,
  emitterId: string,
  eventName: string | undefined,
  start: string | undefined,
  end: string | undefined,
): Promise<void> {
  const newest = await channelOf(store, emitterId, eventName).newestKey();
  if (newest === undefined) return;
  const range = { start: start ?? '', end: end !== undefined && end < newest ? end : newest };
  if (range.start > range.end) return;
  if (eventName === '$logs') return deleteLogs(store, emitterId, range);
  const sort_key = { gte: range.start, lte: range.end };
  await removeAll(store.collection(events), { ...eventsWhere(emitterId, eventName), sort_key });
  if (eventName !== '$in') return;
  const [gte, lte] = [range.start, range.end].map((key) => `${emitterId}/$in/${key}`) as [string, string];
  await removeAll(store.collection(delayed), { id: { gte, lte } });
}

/** The logs of a run without the range: up to two rows. */
export function withoutRange(row: LogRow, { start, end }: Range): LogRow[] {
  const first = parseSortKey(row.sort_key);
  const records = JSON.parse(row.records) as unknown[];
  const keyAt = (index: number) => eventSortKey({ ms: first.ms, n: first.n + index });
  const piece = (from: number, to: number): LogRow => ({
    ...row,
    id: `${row.emitter_id}/${keyAt(from)}`,
    sort_key: keyAt(from),
    count: to - from,
    records: JSON.stringify(records.slice(from, to)),
  });
  const from = records.findIndex((_, index) => keyAt(index) >= start);
  const to = records.findIndex((_, index) => keyAt(index) > end);
  if (from === -1) return [row];
  const pieces = from > 0 ? [piece(0, from)] : [];
  if (to !== -1) pieces.push(piece(to, records.length));
  return pieces;
}

/** The mark that replaces the row of a commit: without it, a run whose job is redelivered would be executed again. */
function markOf({ emitter_id, sort_key, ...row }: LogRow): LogRow {
  const marks = marksOf(emitter_id);
  return { ...row, id: `${marks}/${sort_key}`, emitter_id: marks, sort_key, count: 1, records: '[]' };
}

async function deleteLogs(store: Store, emitterId: string, range: Range): Promise<void> {
  const rows = store.collection(logs);
  const trim = async (row: LogRow) => {
    const left = withoutRange(row, range);
    // Removed below.
    if (left.length === 0) return;
    // In one turn, so that the store commits them together.
    const writes: Promise<unknown>[] = left.map(({ id, count, records, ...rest }) =>
      id === row.id ? rows.patch(id, { count, records }) : rows.insertMany([{ id, count, records, ...rest }]),
    );
    if (!left.some(({ id }) => id === row.id)) writes.push(rows.remove(row.id));
    await Promise.all(writes);
  };
  // The rows at the edges may extend beyond the range and are trimmed.
  const edges = [range.start, range.end].map((edge) =>
    rows.list({
      where: { emitter_id: emitterId, sort_key: { lte: edge } },
      orderBy: 'sort_key',
      order: 'desc',
      limit: 1,
    }),
  );
  const found = new Map((await Promise.all(edges)).flat().map((row) => [row.id, row]));
  for (const row of found.values()) await trim(row);
  const inner = { emitter_id: emitterId, sort_key: { gte: range.start, lte: range.end } };
  for (;;) {
    const page = await rows.list({
      where: inner,
      orderBy: 'sort_key',
      order: 'asc',
      limit: BATCH_SIZE,
      texts: false,
    });
    await rows.insertMany(page.filter(({ ended }) => ended).map(markOf));
    await rows.removeWhere({ emitter_id: emitterId, id: { in: page.map(({ id }) => id) } });
    if (page.length < BATCH_SIZE) return;
  }
}
