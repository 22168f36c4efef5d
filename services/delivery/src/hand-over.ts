import type { DeliveryRow } from '@wellspring/store/collections/webhooks';

/**
 * Rows that this process has just written, for whoever makes the first attempt here: it need not read them back. What
 * is not in it is read; what another process attempts is dropped after a while.
 */
export interface HandOver {
  put(row: DeliveryRow): void;
  /** Gives the row once, if it is there with this lease. */
  take(id: string, lease: number): DeliveryRow | undefined;
}

const MOST_ROWS = 4096;
const LARGEST_PAYLOAD = 16 * 1024;

export function createHandOver(): HandOver {
  const rows = new Map<string, DeliveryRow>();
  return {
    put(row) {
      if (row.payload.length > LARGEST_PAYLOAD) return;
      rows.set(row.id, row);
      if (rows.size > MOST_ROWS) rows.delete(rows.keys().next().value!);
    },
    take(id, lease) {
      const row = rows.get(id);
      if (row) rows.delete(id);
      return row?.due_at === lease ? row : undefined;
    },
  };
}
