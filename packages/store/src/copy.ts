import { collections } from './collections/all.ts';
import type { Row, Store, Where } from './port.ts';

/** A row has up to 24 MB: the code of a bundle. */
const PAGE_SIZE = 32;

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
      const page = await source.list({ where, order: 'asc', limit: PAGE_SIZE });
      const last = page.at(-1);
      if (!last) break;
      await target.insertMany(page);
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
