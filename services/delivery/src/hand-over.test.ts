import { expect, test } from '@jest/globals';
import type { DeliveryRow } from '@wellspring/store/collections/webhooks';
import { createHandOver } from './hand-over.ts';

const row = (id: string, due_at: number, payload = '{}') => ({ id, due_at, payload }) as DeliveryRow;

test('a row is handed over once, and only under its lease', () => {
  const handOver = createHandOver();
  handOver.put(row('a', 5));
  expect(handOver.take('a', 5)?.id).toBe('a');
  expect(handOver.take('a', 5)).toBeUndefined();
  handOver.put(row('b', 5));
  expect(handOver.take('b', 6)).toBeUndefined();
});

test('it holds a bounded number of rows, and no large ones', () => {
  const handOver = createHandOver();
  for (let n = 0; n < 5000; n++) handOver.put(row(String(n), 1));
  expect(handOver.take('0', 1)).toBeUndefined();
  expect(handOver.take('4999', 1)?.id).toBe('4999');
  handOver.put(row('large', 1, 'x'.repeat(20_000)));
  expect(handOver.take('large', 1)).toBeUndefined();
});
