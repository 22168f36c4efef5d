import { expect, test } from '@jest/globals';
import { createLog } from './log.ts';

const lines: string[] = [];
const out = { write: (line: string) => void lines.push(line) };
const last = () => JSON.parse(lines.at(-1)!) as Record<string, unknown>;

test('a line is JSON with level, time, event and fields', () => {
  createLog({ logLevel: 'info', logFormat: 'json' }, out).warn({ source_id: 'dc_1', a: 1 }, 'run.finished');
  expect(last()).toEqual({
    level: 'warn',
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    event: 'run.finished',
    source_id: 'dc_1',
    a: 1,
  });
});

test('secrets are never written, on the top level or below', () => {
  const log = createLog({ logLevel: 'debug', logFormat: 'json' }, out);
  log.info(
    { api_key: 'hunter2', headers: { authorization: 'Bearer hunter2', host: 'x' }, secret: 'hunter2' },
    'run.finished',
  );
  expect(lines.at(-1)).not.toContain('hunter2');
  expect(last()).toMatchObject({ api_key: '(secret)', headers: { authorization: '(secret)', host: 'x' } });
});

test('levels below the configured one are left out', () => {
  const before = lines.length;
  createLog({ logLevel: 'warn', logFormat: 'json' }, out).info({}, 'run.finished');
  expect(lines.length).toBe(before);
});

test('pretty lines hold the same', () => {
  createLog({ logLevel: 'info', logFormat: 'pretty' }, out).error(
    { worker: 'claims', api_key: 'hunter2' },
    'worker.failed',
  );
  expect(lines.at(-1)).toMatch(/error.*worker\.failed.*worker=.*claims/);
  expect(lines.at(-1)).not.toContain('hunter2');
});

test('pretty lines neither control the terminal nor pass for other lines', () => {
  createLog({ logLevel: 'info', logFormat: 'pretty' }, out).error(
    { error: 'a\u001b[2J\u009b1m\r\n12:00 info  forged', cause: ['\u009b2J'] },
    'worker.failed',
  );
  const line = lines.at(-1)!.trimEnd();
  expect(line).toContain('a\\u001b[2J\\u009b1m\n    12:00 info  forged');
  expect(line.replaceAll(/\u001b\[\d+m/g, '')).not.toMatch(/[\0-\x09\x0b-\x1f\x7f-\x9f]/);
});
