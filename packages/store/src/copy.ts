import { collections } from './collections/all.ts';
import type { Collection, Row, Store, Where } from './port.ts';

const PAGE_SIZE = 32;
/** Texts that are held at a time. One row may have more: the code of a bundle has up to 24 MB. */
const MAX_CHARS = 8 * 1024 * 1024;

/**
 * Copies every row of every collection. Skips existing rows, so an interrupted copy can be repeated. Neither store may be
 * written meanwhile.
 * @param onCollection called after each collection
 */
export async function copyStore(
  from: Store,
  to: Store,
  onCollection: (copied: { collection: string; rows: number }) => void = () => {},
): Promise<void> {
  for (const definition of collections) {
    const [source, target] = [from.collection(definition), to.collection(definition)];
    let rows = 0;
    let after = '';
    for (;;) {
      const where = { id: { gt: after } } as Where<Row>;
      const page = await source.list({ where, order: 'asc', limit: PAGE_SIZE, texts: false });
      const last = page.at(-1);
      if (!last) break;
      if (definition.texts) await copyWithTexts(source, target, page);
      else await target.insertMany(page);
      rows += page.length;
      after = last.id;
    }
    const copied = await target.count();
    if (copied < rows) {
      throw new Error(
        `Incomplete copy of ${definition.name}: ${rows} rows in the source, ${copied} in the target. Repeat the copy.`,
      );
    }
    onCollection({ collection: definition.name, rows });
  }
}

/** Copies rows whose texts may have megabytes, and were not read with the page. */
async function copyWithTexts(source: Collection<Row>, target: Collection<Row>, page: Row[]): Promise<void> {
  let rows: Row[] = [];
  let chars = 0;
  for (const { id } of page) {
    const row = await source.get(id);
    if (!row) continue;
    rows.push(row);
    for (const value of Object.values(row)) if (typeof value === 'string') chars += value.length;
    if (chars <= MAX_CHARS) continue;
    await target.insertMany(rows);
    [rows, chars] = [[], 0];
  }
  await target.insertMany(rows);
}
