import { expect, test } from '@jest/globals';
import type { EmitterStateRow } from '@wellspring/store/collections/states';
import { logRow } from '@wellspring/testing/rows';
import { createCommitGroup, type Part } from './commit-group.ts';

const part = (run_id: string, rest: Partial<Part> = {}): Part => ({
  run_id,
  trace_id: `trace of ${run_id}`,
  hop: 0,
  events: [],
  logs: { ...logRow('dc_1', `1-${run_id}`, { run_id }), records: [] },
  emitted: [],
  bytes: 0,
  ...rest,
});

const state = {
  id: 'dc_1',
  db: {},
  epoch: 1,
  dedupe: {},
  last_ids: {},
} satisfies EmitterStateRow;

test('one message carries the events of all runs, each with the trace id of its run', async () => {
  const group = createCommitGroup('dc_1', 'u_1');
  for (const id of ['run_a', 'run_b']) {
    group.add(part(id, { emitted: [{ event_id: `5-${id}`, name: '', payload: '1' }] }), state);
  }
  const { outbox } = await group.close(7);
  expect(JSON.parse(outbox!.message)).toMatchObject({
    run_id: 'run_a',
    emitter_id: 'dc_1',
    owner_id: 'u_1',
    events: [{ trace_id: 'trace of run_a' }, { trace_id: 'trace of run_b' }],
  });
});

test('runs without emits publish no message', async () => {
  const group = createCommitGroup('dc_1', 'u_1');
  group.add(part('run_a'), state);
  expect((await group.close(7)).outbox).toBeUndefined();
});

test('a group is limited to one hop, 64 runs and 1 MB', () => {
  const group = createCommitGroup('dc_1', 'u_1');
  group.add(part('run_a', { hop: 2 }), state);
  expect(group.takes(part('run_b', { hop: 2 }))).toBe(true);
  expect(group.takes(part('run_c', { hop: 3 }))).toBe(false);
  group.add(part('run_d', { hop: 2, bytes: 2_000_000 }), state);
  expect(group.takes(part('run_e', { hop: 2 }))).toBe(false);
  const many = createCommitGroup('dc_1', 'u_1');
  for (let n = 0; n < 64; n++) many.add(part(`run_${n}`), state);
  expect(many.takes(part('run_64'))).toBe(false);
});
