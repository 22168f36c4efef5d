import { expect, test } from '@jest/globals';
import { type Log, silentLog } from '@wellspring/core/log';
import { noMetrics } from '@wellspring/core/metrics';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { keepRunning } from './background-workers.ts';

function stage() {
  const clock = createFakeClock();
  const errors: object[] = [];
  const log: Log = { ...silentLog, error: (fields) => void errors.push(fields) };
  const [deps, ending] = [{ clock, log, metrics: noMetrics }, new AbortController()];
  /** Runs a worker that fails after its work, and notes the times of its starts. */
  function failing(name: string, work = async (_starts: number) => {}) {
    const starts: number[] = [];
    const begun = clock.now();
    const run = async () => {
      await work(starts.push(clock.now() - begun));
      throw new Error('broken pipe');
    };
    return { starts, done: keepRunning({ name, run }, ending.signal, deps) };
  }
  return { clock, errors, deps, ending, failing };
}

test('a worker that throws is restarted with a growing backoff, and the log says why', async () => {
  const { clock, errors, ending, failing } = stage();
  const { starts, done } = failing('flaky');
  await clock.advance(60_000);
  expect(starts.slice(0, 9)).toEqual([0, 100, 300, 700, 1500, 3100, 5100, 7100, 9100]);
  expect(starts.at(-1)! - starts.at(-2)!).toBe(2_000);
  expect(errors[0]).toMatchObject({ worker: 'flaky', error: expect.stringContaining('broken pipe') });
  ending.abort();
  await done;
});

test('a worker that ran for long restarts with a short backoff', async () => {
  const { clock, ending, failing } = stage();
  const { starts, done } = failing('steady', async (nth) => {
    if (nth === 4) await clock.sleep(100_000);
  });
  await clock.advance(101_000);
  expect(starts.slice(0, 5)).toEqual([0, 100, 300, 700, 100_800]);
  ending.abort();
  await done;
});

test('a worker that is done, or that fails while it is stopped, is not restarted', async () => {
  const { deps, ending, errors } = stage();
  let starts = 0;
  const once = async () => {
    starts += 1;
  };
  await keepRunning({ name: 'once', run: once }, ending.signal, deps);
  expect(starts).toBe(1);
  const late = keepRunning(
    {
      name: 'late',
      run: (signal) =>
        new Promise((_, reject) => {
          starts += 1;
          signal.addEventListener('abort', () => reject(new Error('cut off')));
        }),
    },
    ending.signal,
    deps,
  );
  ending.abort();
  await late;
  expect([starts, errors]).toEqual([2, []]);
});
