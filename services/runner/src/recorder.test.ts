import { expect, test } from '@jest/globals';
import type { Result } from '@wellspring/sandbox/port';
import { noMask } from './mask-secrets.ts';
import { costOf } from './owner-costs.ts';
import { createRecorder } from './recorder.ts';

const RESULT: Result = { ok: true, durationMs: 1, cpuMs: 1, endedProcesses: 1 };

test('a test run costs as much as a run that is stored', () => {
  const recorder = createRecorder(noMask);
  const { host } = recorder;
  const emit = { payload: '"abc"', id: null, name: '', summary: null, ts: null, at: 1, delivery_ts: null };
  const errors = [1, 2, 3].map((n) => ({
    name: 'Error',
    message: `message ${n}`,
    stack: 'stack',
    cause: 'cause',
  }));
  const line = { ts: 1, level: 'info', msg: 'a line' } as const;
  const sets = [
    { key: 'key', json: '"value"' },
    { key: 'other', json: undefined },
  ];
  host.emit(emit);
  for (const error of errors) host.fault(error);
  host.log(line);
  for (const [at, { key, json }] of sets.entries()) expect(host.dbSet(key, json)).toBe(at + 1);
  host.send!('http', '{"url":""}');
  host.respond({ status: 200, headers: {}, body: 'Ym9keQ==' });
  expect(recorder.cost(RESULT)).toEqual(
    costOf(
      {
        outcome: { emits: [emit], errors, logs: [line] },
        result: RESULT,
        sets,
        sends: [{ request: '{"url":""}' }],
      },
      'Ym9keQ=='.length,
    ),
  );
  expect(recorder.result()).toMatchObject({ ok: false, error: { code: 'Error', msg: 'message 1' } });
});

test('effects that are left out of the result of a test run are charged', () => {
  const recorder = createRecorder(noMask);
  for (let n = 0; n < 5000; n += 1) recorder.host.fault({ name: 'Error', message: 'x', stack: '' });
  for (let n = 0; n < 5000; n += 1) recorder.host.dbSet('key', undefined);
  expect(recorder.cost(RESULT)).toMatchObject({ events: 5000, result: { endedProcesses: 1 } });
  expect(recorder.cost(RESULT).bytes).toBeGreaterThan(500_000);
});

test('values that take much more memory than their texts are left out before those texts reach the limit', () => {
  const shown = (payload: string) => {
    const { host, result } = createRecorder(noMask);
    const emit = { payload, id: null, name: '', summary: null, ts: null, at: 1, delivery_ts: null };
    for (let n = 0; n < 3; n += 1) {
      host.emit(emit);
      host.export!(`name${n}`, payload);
      host.send!('http', payload);
    }
    const { emitted, exports, sends, truncated } = result();
    return [emitted.length, exports.length, sends.length, truncated];
  };
  expect(shown(JSON.stringify('x'.repeat(400_000)))).toEqual([3, 3, 3, false]);
  expect(shown(`[${'[],'.repeat(400_000 / 3)}0]`)).toEqual([1, 0, 0, true]);
});
