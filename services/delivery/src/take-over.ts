import { LEASE_MS } from './lease.ts';

interface LeasedRow {
  id: string;
  /** Epoch ms from which the row may be claimed: of a claimed one, the end of the lease. Null: never. */
  due_at: number | null;
}

/** The methods of a collection that are used. */
interface LeasedRows<T> {
  list(options: {
    where: { due_at: { gt: number; lt: number } };
    orderBy: 'due_at';
    order: 'asc';
    limit: number;
    texts: false;
  }): Promise<T[]>;
  patch(id: string, fields: { due_at: number }, where: Pick<LeasedRow, 'due_at'>): Promise<boolean>;
}

const PAGE_SIZE = 200;

/** Makes rows due that the previous process has leased. Only for a process that is the only one. */
export async function takeOver<T extends LeasedRow>(
  rows: LeasedRows<T>,
  startedAt: number,
  isLeased: (row: T) => boolean,
): Promise<void> {
  // Leases of this process end later.
  const lt = startedAt + LEASE_MS;
  for (let gt = startedAt; ; ) {
    const where = { due_at: { gt, lt } };
    const page = await rows.list({ where, orderBy: 'due_at', order: 'asc', limit: PAGE_SIZE, texts: false });
    const leased = page.filter(isLeased);
    await Promise.all(leased.map(({ id, due_at }) => rows.patch(id, { due_at: startedAt }, { due_at })));
    if (page.length < PAGE_SIZE) return;
    // Further rows may have the `due_at` of the last one; skip it if no row of the page is leased.
    gt = page.at(-1)!.due_at! - (leased.length > 0 ? 1 : 0);
  }
}
