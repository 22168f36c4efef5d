import { expect, test } from '@jest/globals';
import type { RunJob } from '@wellspring/contract/messages';
import { logs } from '@wellspring/store/collections/events';
import { measureReads } from '@wellspring/testing/measure-reads';
import { numbers } from '@wellspring/testing/numbers';
import { logRow } from '@wellspring/testing/rows';
import { openPorts } from '@wellspring/testing/service-harness';
import { createKnownRuns, findCommitted } from './known-runs.ts';

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

test('committed runs are forgotten after minutes, also when the clock was set back; then the store is asked about them', () => {
  const before = 100 * HOUR_MS;
  const known = createKnownRuns(before);
  known.add('before', before);
  const after = before - HOUR_MS;
  known.add('first', after);
  known.add('later', after + 2 * MINUTE_MS);
  expect(['before', 'first', 'later'].map(known.has)).toEqual([false, false, true]);
  // Runs up to this time are looked up.
  expect(known.since).toBe(before);
});

test.each([
  ['one process', true, 1],
  ['several', false, 2],
])(
  'with %s, a run accepted after the state was read is looked up if clocks may differ',
  async (_, publishesCommits, reads) => {
    const { db, store, close } = openPorts();
    const known = createKnownRuns(HOUR_MS);
    const accepted = (accepted_at: number): RunJob => ({
      ...{ v: 1, type: 'run', run_id: `run_${accepted_at}`, source_id: 'dc_1', hop: 0, trace_id: '' },
      ...{ trigger: { kind: 'manual' }, accepted_at },
    });
    await findCommitted(store, 'dc_1', known, [accepted(HOUR_MS)]);
    const before = db.executed;
    for (const at of [HOUR_MS, HOUR_MS + 1])
      await findCommitted({ ...store, publishesCommits }, 'dc_1', known, [accepted(at)]);
    expect(db.executed - before).toBe(reads);
    await close();
  },
);

test('the look-up of redelivered runs does not read their log records', async () => {
  const { store: written, close } = openPorts();
  const { store, bytes } = measureReads(written);
  const runs = numbers(20).map((n) => `run_${n}`);
  const records = JSON.stringify([{ ts: 0, k: 'log', level: 'info', msg: 'x'.repeat(100_000) }]);
  const rows = runs.map((run_id) => logRow('dc_1', run_id, { run_id, records, ended: true }));
  await store.collection(logs).insertMany(rows);
  const redelivered = runs.map(
    (run_id): RunJob => ({
      ...{ v: 1, type: 'run', run_id, source_id: 'dc_1', hop: 0, trace_id: '' },
      ...{ trigger: { kind: 'manual' }, accepted_at: 0, redelivered: true },
    }),
  );
  const known = createKnownRuns(HOUR_MS);
  expect(await findCommitted(store, 'dc_1', known, redelivered)).toEqual(new Set(runs));
  expect(bytes()).toBeLessThan(runs.length * 1000);
  await close();
});
