import { expect, test } from '@jest/globals';
import { eventSortKey } from '@wellspring/core/event-id';
import type { LogRow } from '@wellspring/store/collections/events';
import type { EmitterStateRow } from '@wellspring/store/collections/states';
import { createCommitGroup, type Part } from './commit-group.ts';

const logs = (ms: number, n: number, ...records: unknown[]): LogRow => ({
  id: `dc_1/${eventSortKey({ ms, n })}`,
  emitter_id: 'dc_1',
  sort_key: eventSortKey({ ms, n }),
  run_id: `run_${ms}_${n}`,
  indexed_at_ms: ms,
  count: records.length,
  records: JSON.stringify(records),
});

const part = (run_id: string, rest: Partial<Part> = {}): Part => ({
  run_id,
  trace_id: `trace of ${run_id}`,
  hop: 0,
  events: [],
  logs: undefined,
  emitted: [],
  ...rest,
});

const state = {
  id: 'dc_1',
  db: {},
  epoch: 1,
  dedupe: {},
  last_ids: {},
  committed: [],
} satisfies EmitterStateRow;

test('logs with consecutive ids share a row, others do not', () => {
  const group = createCommitGroup('dc_1', 'u_1');
  group.add(part('run_a', { logs: logs(5, 0, 'a1', 'a2') }));
  group.add(part('run_b', { logs: logs(5, 2, 'b1') }));
  group.add(part('run_c', { logs: logs(6, 0, 'c1') }));
  const { commit } = group.close(state, 3, 7);
  expect(commit.logs.map(({ id, count, records }) => [id, count, JSON.parse(records)])).toEqual([
    [`dc_1/${eventSortKey({ ms: 5, n: 0 })}`, 3, ['a1', 'a2', 'b1']],
    [`dc_1/${eventSortKey({ ms: 6, n: 0 })}`, 1, ['c1']],
  ]);
});

test('one message carries the events of all runs, each with the trace id of its run', () => {
  const group = createCommitGroup('dc_1', 'u_1');
  for (const id of ['run_a', 'run_b']) {
    group.add(part(id, { emitted: [{ event_id: `5-${id}`, name: '', payload: '1' }] }));
  }
  const { commit, outbox } = group.close(state, 0, 7);
  expect(commit.outbox).toBe(outbox);
  expect(JSON.parse(outbox!.message)).toMatchObject({
    run_id: 'run_a',
    emitter_id: 'dc_1',
    owner_id: 'u_1',
    events: [{ trace_id: 'trace of run_a' }, { trace_id: 'trace of run_b' }],
  });
});

test('runs without emits publish no message', () => {
  const group = createCommitGroup('dc_1', 'u_1');
  group.add(part('run_a'));
  expect(group.close(state, 0, 7).outbox).toBeUndefined();
});

test('a group is limited to one hop, 64 runs and 1 MB', () => {
  const group = createCommitGroup('dc_1', 'u_1');
  group.add(part('run_a', { hop: 2 }));
  expect(group.takes(part('run_b', { hop: 2 }))).toBe(true);
  expect(group.takes(part('run_c', { hop: 3 }))).toBe(false);
  group.add(
    part('run_d', { hop: 2, emitted: [{ event_id: '1-0', name: '', payload: 'x'.repeat(2_000_000) }] }),
  );
  expect(group.takes(part('run_e', { hop: 2 }))).toBe(false);
  const many = createCommitGroup('dc_1', 'u_1');
  for (let n = 0; n < 64; n++) many.add(part(`run_${n}`));
  expect(many.takes(part('run_64'))).toBe(false);
});
