import { expect, test } from '@jest/globals';
import { openDatabase } from '@wellspring/sqlite/database';
import { createEmbeddedStore } from '../embedded/store.ts';
import { deleteWorkflowRows } from './delete-workflow.ts';
import { type DeliveryRow, deliveries } from './webhooks.ts';

test('requests of a deleted workflow that were not made are never made', async () => {
  const db = openDatabase(':memory:');
  const store = createEmbeddedStore(db);
  const rows = store.collection(deliveries);
  const [gone, kept] = ['p_gone', 'p_kept'];
  const row = (id: string, fields: Partial<DeliveryRow>) =>
    ({ id, due_at: null, send: true, ...fields }) as DeliveryRow;
  await rows.insertMany([
    row('dlv_due', { webhook_id: gone, due_at: 1 }),
    row('dlv_made', { webhook_id: gone }),
    row('dlv_other_due', { webhook_id: kept, due_at: 1 }),
    ...Array.from({ length: 1_100 }, (_, n) => row(`dlv_${n}`, { webhook_id: gone, due_at: n + 1 })),
  ]);
  await deleteWorkflowRows(store, gone);
  const left = await rows.list({ order: 'asc' });
  expect(left.map(({ id }) => id)).toEqual(['dlv_made', 'dlv_other_due']);
  await db.close();
});
