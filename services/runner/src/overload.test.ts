import { expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { OWNER } from '@wellspring/testing/rows';
import { usePlatform } from './platform.fixture.ts';
import { createRunSlots } from './run-slots.ts';
import { MIN_SLOTS } from './slot-limit.ts';
import { createSlotTimers } from './slot-timers.fixture.ts';

const timers = createSlotTimers();
// The main thread is overloaded for all of the test.
const t = usePlatform({
  openSlots: (costs) => createRunSlots(costs, { adapt() {}, current: MIN_SLOTS }, timers.later),
});

const BUSY = 'u_busy0000001';
const ECHO_OR_WAIT = `export default { name: 'Code', async run(event) {
  if (event === 'wait') await new Promise(() => setInterval(() => {}, 60_000));
  for (let n = 0; n < (event.count ?? 1); n++) this.$emit(event);
} };`;

const waiting = () => t.gauge('wellspring_run_slots_waiting');

async function deploy(count: number, owner: string): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n += 1)
    ids.push(await t.deploy(ECHO_OR_WAIT, { owner_id: owner, user_id: owner }));
  return ids;
}

test('an owner that causes most of an overload waits for slots, another owner does not', async () => {
  const busy = await deploy(MIN_SLOTS + 4, BUSY);
  const others = await deploy(MIN_SLOTS + 2, OWNER);
  await t.runToEnd(others[0]!, [{}]);
  await t.runToEnd(busy[0]!, [{ count: 5_000 }]);

  for (const id of busy) await t.runAll(id, ['wait']);
  await eventually(async () => t.busy() === MIN_SLOTS && (await waiting()) === 4, { ms: 30_000 });
  for (const id of others) await t.runAll(id, ['wait']);
  await eventually(() => t.busy() === MIN_SLOTS + others.length, { ms: 30_000 });
  expect(await waiting()).toBe(4);

  // Runs that wait for each other would otherwise wait for ever.
  timers.expire();
  await eventually(() => t.busy() === busy.length + others.length, { ms: 30_000 });
  expect(await waiting()).toBe(0);

  for (const id of [...busy, ...others]) t.killCode(id);
  for (const id of [...busy, ...others]) await t.runAll(id, ['next']);
  await t.quiet();
  for (const id of [...busy, ...others]) {
    expect((await t.events(id)).at(-1)).toBe('next');
    expect(await t.events(id, '$errors')).toHaveLength(1);
  }
}, 120_000);

test('runs that wait for a slot are executed after a restart of the runner', async () => {
  const [other] = await deploy(1, OWNER);
  const busy = await deploy(MIN_SLOTS, BUSY);
  const late = await deploy(2, BUSY);
  await t.runToEnd(other!, [{}]);
  await t.runToEnd(busy[0]!, [{ count: 100 }]);
  for (const id of busy) await t.runAll(id, ['wait']);
  await eventually(() => t.busy() === MIN_SLOTS, { ms: 30_000 });
  for (const id of late) await t.runAll(id, ['next']);
  await eventually(async () => (await waiting()) === late.length, { ms: 30_000 });

  const restarted = t.restart();
  // A stopping runner kills its processes.
  for (const id of busy) t.killCode(id);
  await restarted;
  await eventually(async () => (await t.queue.depth('runs')) === 0, { ms: 30_000 });
  for (const id of late) expect(await t.events(id)).toEqual(['next']);
}, 120_000);
