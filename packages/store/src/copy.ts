import { collections } from './collections/all.ts';
import type { Row, Store, Where } from './port.ts';

const PAGE = 500;

/**
 * Copies every row of every collection. Rows that are there already stay as they are, so that a copy which was
 * interrupted can be repeated. Nobody may write to either store meanwhile.
 * @param onCollection told of each collection when it is complete
 */
export async function copyStore(
  from: Store,
  to: Store,
  onCollection: (copied: { collection: string; rows: number }) => void = () => {},
): Promise<void> {
  for (const definition of collections) {
    const [source, target] = [from.collection(definition), to.collection(definition)];
    let rows = 0;
    for (let after = ''; ; ) {
      const where = { id: { gt: after } } as Where<Row>;
      const page = await source.list({ where, order: 'asc', limit: PAGE });
      const last = page.at(-1);
      if (!last) break;
      await target.insertMany(page);
      rows += page.length;
      after = last.id;
    }
    const there = await target.count();
    if (there < rows) {
      throw new Error(`${definition.name}: ${rows} rows were copied, but there are only ${there}.`);
    }
    onCollection({ collection: definition.name, rows });
  }
}
