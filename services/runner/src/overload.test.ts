import { expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { numbers } from '@wellspring/testing/numbers';
import { ECHO, usePlatform } from './platform.fixture.ts';
import { MIN_SLOTS } from './slot-limit.ts';

// The main thread is overloaded for all of the test.
const t = usePlatform({ slotLimit: { adapt() {}, current: MIN_SLOTS } });

const BUSY = 'u_busy0000001';
const ENDS_WHEN_KILLED = `export default { name: 'Slow', async run(event) {
  if (event === 'wait') await new Promise(() => setInterval(() => {}, 60_000));
  this.$emit(event);
} };`;

test('an owner that causes most of an overload waits for slots, other owners do not', async () => {
  const other = await t.deploy(ECHO);
  await t.runToEnd(other, ['first']);
  const ids: string[] = [];
  for (let n = 0; n < 10; n += 1)
    ids.push(await t.deploy(ENDS_WHEN_KILLED, { owner_id: BUSY, user_id: BUSY }));
  for (const id of ids) await t.runAll(id, ['wait']);
  await eventually(async () => (await t.gauge('wellspring_run_slots_waiting')) > 0, { ms: 20_000 });

  const values = numbers(100);
  await t.runAll(other, values);
  await eventually(async () => (await t.events(other)).length === 101, { ms: 20_000 });
  expect(await t.events(other)).toEqual(['first', ...values]);

  // Slots that are held for long do not count: runs that wait for each other would wait for ever.
  await eventually(() => t.busy() === ids.length, { ms: 20_000 });
  for (const id of ids) t.killCode(id);
  for (const id of ids) await t.runAll(id, ['next']);
  await t.quiet();
  for (const id of ids) {
    expect(await t.events(id)).toEqual(['next']);
    expect(await t.events(id, '$errors')).toHaveLength(1);
  }
  expect(await t.gauge('wellspring_run_slots_waiting')).toBe(0);
});
