import { expect, test } from '@jest/globals';
import type { RunJob } from '@wellspring/contract/messages';
import type { Deployed } from './catalog.ts';
import { isOvertaken, noteRun } from './job-trigger.ts';
import { liveState } from './live-state.ts';

const NOW = 1_700_000_000_000;
const START = NOW - 1000;

const job = (accepted_at: number, trigger: RunJob['trigger']): RunJob => ({
  ...{ v: 1, type: 'run', run_id: 'run_1', source_id: 'dc_1', hop: 0, trace_id: 'run_1' },
  ...{ accepted_at, trigger },
});
const manual = (accepted: number) => job(START + accepted, { kind: 'manual', payload: '1' });
const tick = (due: number, accepted = due, prop = 'timer') =>
  job(START + accepted, { kind: 'timer', prop, due_at: START + due, interval_seconds: 60 });
const other = (due: number) => tick(due, due, 'other');

/** Which of these jobs are skipped; each run takes 100 ms from `idleUntil` or the end of the previous run. */
function skipped(jobs: RunJob[], { idleUntil = 0, concurrency = 1, runMs = 100 } = {}): number[] {
  const live = liveState('dc_1', undefined, NOW);
  const deployed = { emitter: { concurrency } } as Deployed;
  const indexes: number[] = [];
  let startedAt = START + idleUntil;
  for (const [index, one] of jobs.entries()) {
    if (isOvertaken(one, live, NOW)) {
      indexes.push(index);
      continue;
    }
    startedAt = Math.max(startedAt, one.accepted_at);
    noteRun(one, deployed, live, { startedAt, endedAt: startedAt + runMs });
    startedAt += runMs;
  }
  return indexes;
}

test('a tick is skipped that falls due during the previous run, or an earlier one of the same backlog', () => {
  expect(skipped([manual(0), tick(50)])).toEqual([1]);
  expect(skipped([manual(0), tick(100)])).toEqual([]);
  expect(skipped([manual(0), manual(10), tick(50)])).toEqual([2]);
  expect(skipped([manual(0), tick(50), tick(60), tick(150)])).toEqual([1, 2]);
});

test('ticks that fall due at the same moment are executed, also when accepted one after the other', () => {
  expect(skipped([tick(0), tick(0), tick(0)])).toEqual([]);
  expect(skipped([tick(0, 5), tick(0, 20)])).toEqual([]);
  expect(skipped([tick(0, 20), tick(5, 20)])).toEqual([]);
  expect(skipped([tick(0), tick(0), tick(50)])).toEqual([2]);
});

test('ticks of different timers that fall due less than a second apart are executed, one of each', () => {
  const third = tick(0, 0, 'third');
  expect(skipped([tick(0), other(3), third])).toEqual([]);
  expect(skipped([other(3), tick(0), tick(50), other(50)])).toEqual([2, 3]);
  expect(skipped([tick(0), other(50), other(90)])).toEqual([2]);
  expect(skipped([manual(0), tick(50), other(60)])).toEqual([1, 2]);
});

test('two timers of one second do not run one after the other without end', () => {
  const ticks = [-9000, -8000, -7000, -6000].flatMap((due) => [tick(due), other(due + 500)]);
  expect(skipped(ticks, { idleUntil: -9000, runMs: 800 })).toEqual([2, 3, 6, 7]);
});

test('a run that waited when the tick fell due does not overtake it', () => {
  expect(skipped([manual(0), tick(1)], { idleUntil: 10 })).toEqual([]);
});

test('of the ticks of a timer that waited for the runner, one is executed', () => {
  expect(skipped([tick(0), tick(50), tick(100)], { idleUntil: 150 })).toEqual([1, 2]);
  expect(skipped([manual(0), tick(50), tick(100)], { idleUntil: 150 })).toEqual([2]);
});

test('of a source with concurrency, only runs of ticks overtake ticks', () => {
  expect(skipped([manual(0), tick(50), tick(60), tick(70, 70)], { concurrency: 2 })).toEqual([2, 3]);
});
