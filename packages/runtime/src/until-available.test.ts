import { expect, test } from '@jest/globals';
import { AccessDenied, Unavailable } from '@wellspring/core/unavailable';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { listLog } from '@wellspring/testing/list-log';
import { untilAvailable } from './until-available.ts';

test('work of the start is repeated while a server does not answer, with a line in the log', async () => {
  const [clock, { log, lines }] = [createFakeClock(), listLog()];
  let attempts = 0;
  const done = untilAvailable({ mode: 'distributed', clock, log }, async () => {
    attempts += 1;
    if (attempts < 3) throw new Unavailable('MongoDB does not answer');
    return attempts;
  });
  await clock.advance(100);
  await clock.advance(200);
  expect(await done).toBe(3);
  expect(lines).toEqual(['process.waiting', 'process.waiting']);
});

test.each([
  ['another error', Error],
  ['a missing right', AccessDenied],
])('%s ends the start', async (_, Refusal) => {
  const { log } = listLog();
  const refused = async () => {
    throw new Refusal('refused');
  };
  const how = { mode: 'distributed' as const, clock: createFakeClock(), log };
  await expect(untilAvailable(how, refused)).rejects.toThrow('refused');
});

test('a full disk ends the start of the embedded mode', async () => {
  const { log, lines } = listLog();
  const full = async () => {
    throw new Unavailable('The disk is full');
  };
  const how = { mode: 'embedded' as const, clock: createFakeClock(), log };
  await expect(untilAvailable(how, full)).rejects.toThrow('full');
  expect(lines).toEqual([]);
});
