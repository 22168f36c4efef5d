import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { isCommitted, withCommitted } from './committed.ts';

const stem = fc.constantFrom('run_a', 'run_b', 'run_ab');
const runId = fc.oneof(
  stem,
  fc.tuple(stem, fc.nat({ max: 12 })).map(([text, n]) => `${text}-${n}`),
);

test('exactly the added runs are committed', () => {
  fc.assert(
    fc.property(fc.array(runId, { maxLength: 40 }), runId, (added, asked) => {
      const committed = added.reduce<string[]>((so, id) => withCommitted(so, id, 1000), []);
      expect(isCommitted(committed, asked)).toBe(added.includes(asked));
    }),
  );
});

test('the runs of one message are one entry, which tells missing runs apart', () => {
  let committed: string[] = [];
  for (let n = 0; n < 1000; n++) if (n !== 7) committed = withCommitted(committed, `run_a-${n}`, 2);
  expect(committed).toEqual(['run_a-0..6,8..999']);
  expect(isCommitted(committed, 'run_a-7')).toBe(false);
  expect(withCommitted(committed, 'run_a-7', 2)).toEqual(['run_a-0..999']);
});

test('the oldest entries are dropped first', () => {
  const ids = ['run_a', 'run_b-0', 'run_c', 'run_b-1', 'run_d'];
  expect(ids.reduce<string[]>((so, id) => withCommitted(so, id, 3), [])).toEqual([
    'run_c',
    'run_b-0..1',
    'run_d',
  ]);
});

test('a shard drops no entries because of the others', () => {
  let committed = withCommitted([], 'run_a', 2, '3');
  for (let n = 0; n < 100; n++) committed = withCommitted(committed, `run_b${n}`, 2, String(n % 3));
  committed = withCommitted(committed, 'run_c', 2);
  expect(committed).toHaveLength(1 + 3 * 2 + 1);
  expect(isCommitted(committed, 'run_a', '3')).toBe(true);
  expect(isCommitted(committed, 'run_a', '2')).toBe(false);
  expect(isCommitted(committed, 'run_b99', '0')).toBe(true);
  expect(isCommitted(committed, 'run_b93', '0')).toBe(false);
});
