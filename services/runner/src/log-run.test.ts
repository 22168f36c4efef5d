import { expect, test } from '@jest/globals';
import type { Log } from '@wellspring/core/log';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { createLogRun, placeOf } from './log-run.ts';

const RUN = { run_id: 'run_1', source_id: 'dc_1', trace_id: 'req_1' };
const OK = { ok: true, durationMs: 5, cpuMs: 1 } as const;
const error = (message: string) => ({
  name: 'TypeError',
  message,
  stack: `TypeError: ${message}\n    at Object.run (file:///app/component.mjs:4:11)\n    at other (a.js:1:1)`,
});

function listen() {
  const warnings: object[] = [];
  const clock = createFakeClock();
  const log: Log = {
    debug() {},
    info() {},
    warn: (fields, event) => void warnings.push({ event, ...fields }),
    error() {},
  };
  return { warnings, clock, logRun: createLogRun(log, clock) };
}

test('a run that fails is one warning with message and place, others are not', () => {
  const { logRun, warnings } = listen();
  logRun(RUN, OK, []);
  logRun(RUN, OK, [error('no\u001b[31m colours,\nno lines')]);
  expect(warnings).toEqual([
    {
      event: 'run.failed',
      source_id: 'dc_1',
      run_id: 'run_1',
      error: 'TypeError: no [31m colours, no lines',
      at: 'file:///app/component.mjs:4:11',
    },
  ]);
});

test('a component that fails all the time is told once a second', async () => {
  const { logRun, warnings, clock } = listen();
  for (let n = 0; n < 100; n += 1) logRun(RUN, OK, [error(`${n}`)]);
  expect(warnings).toHaveLength(1);
  await clock.advance(1000);
  logRun(RUN, OK, [error('later')]);
  expect(warnings).toHaveLength(2);
});

test.each([
  ['Error: x\n    at async f (/app/component.mjs:10:3)', '/app/component.mjs:10:3'],
  ['Error: x\n    at /app/component.mjs:2:1', '/app/component.mjs:2:1'],
  ['Error: x', undefined],
  ['', undefined],
])('the place in %j is %s', (stack, place) => {
  expect(placeOf(stack)).toBe(place);
});

test('a hostile stack has no place', () => {
  for (const stack of ['\n'.repeat(16_384), ' '.repeat(16_384), `    at ${'('.repeat(16_384)}`]) {
    expect(placeOf(stack)).toBeUndefined();
  }
});
