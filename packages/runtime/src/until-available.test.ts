import { expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { listLog } from '@wellspring/testing/list-log';
import { untilAvailable } from './until-available.ts';

test('work of the start is repeated while a server does not answer, with a line in the log', async () => {
  const [clock, { log, lines }] = [createFakeClock(), listLog()];
  let attempts = 0;
  const done = untilAvailable({ clock, log }, async () => {
    attempts += 1;
    if (attempts < 3) throw new Unavailable('MongoDB does not answer');
    return attempts;
  });
  await clock.advance(100);
  await clock.advance(200);
  expect(await done).toBe(3);
  expect(lines).toEqual(['process.waiting', 'process.waiting']);
});

test('another error ends the start', async () => {
  const { log } = listLog();
  const refused = async () => {
    throw new Error('refused');
  };
  await expect(untilAvailable({ clock: createFakeClock(), log }, refused)).rejects.toThrow('refused');
});
