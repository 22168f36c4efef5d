import { describe, expect, test } from '@jest/globals';
import { CALLS } from '@wellspring/contract/calls';
import { deleteSourceRows } from '@wellspring/store/collections/delete-source';
import { eventually } from '@wellspring/testing/eventually';
import { numbers } from '@wellspring/testing/numbers';
import { OWNER } from '@wellspring/testing/rows';
import { ECHO, usePlatform } from './platform.fixture.ts';

const t = usePlatform({ permits: { runs: 4, hooks: 4 } });

const ATTACKER = 'u_attacker01';
const NEVER = `export default { name: 'Never', async run(event) {
  this.$emit({ began: event });
  console.log('began');
  await new Promise(() => setInterval(() => {}, 60_000));
} };`;

const held = () => t.gauge('wellspring_run_permits_held');
const waiting = () => t.gauge('wellspring_run_permits_waiting');

/** Deploys `count` sources of one owner whose runs never end, each with two jobs. */
async function neverSettling(count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n++) ids.push(await t.deploy(NEVER, { owner_id: ATTACKER, user_id: ATTACKER }));
  for (const id of ids) await t.runAll(id, [1, 2]);
  return ids;
}

/** Deletes the sources, which kills their runs. */
const forget = async (ids: readonly string[]) => {
  for (const id of ids) await deleteSourceRows(t.store, id);
  for (const id of ids) await t.call.request(CALLS.forget, { source_id: id }, { deadlineMs: 5_000 });
};

describe('an owner whose runs never end', () => {
  test('holds half of the run permits, and the runs of another owner execute in order', async () => {
    const attacking = await neverSettling(8);
    // Positive control: the attacker holds its full share and waits for more.
    await eventually(async () => (await held()) === 2 && (await waiting()) === 6, { ms: 20_000 });

    const id = await t.deploy(ECHO);
    const values = numbers(100);
    await t.runAll(id, values);
    await eventually(async () => (await t.events(id)).length === values.length, { ms: 20_000 });
    expect(await t.events(id)).toEqual(values);
    await eventually(async () => (await held()) === 2 && (await t.queue.depth('runs')) === 16);
    await forget(attacking);
    await t.quiet();
  });

  test('loses none of the runs that wait for a permit', async () => {
    const attacking = await neverSettling(2);
    await eventually(async () => (await held()) === 2, { ms: 20_000 });
    const ids: string[] = [];
    for (let n = 0; n < 3; n++) ids.push(await t.deploy(ECHO, { owner_id: ATTACKER, user_id: ATTACKER }));
    for (const id of ids) await t.runAll(id, ['first', 'second']);
    await eventually(async () => (await waiting()) === 3);
    await forget(attacking);
    await t.quiet();
    for (const id of ids) expect(await t.events(id)).toEqual(['first', 'second']);
  });

  test('keeps its waiting runs across a restart of the runner', async () => {
    const attacking = await neverSettling(2);
    await eventually(async () => (await held()) === 2, { ms: 20_000 });
    const id = await t.deploy(ECHO, { owner_id: ATTACKER, user_id: ATTACKER });
    await t.runAll(id, ['first', 'second']);
    await eventually(async () => (await waiting()) === 1);
    const restarted = t.restart();
    // A stopping runner kills its processes.
    for (const one of attacking) t.killCode(one);
    await restarted;
    await t.quiet();
    expect(await t.events(id)).toEqual(['first', 'second']);
  });
});

test('hooks that never end hold half of the hook permits, and a hook of another owner executes', async () => {
  const hook = `hooks: { async activate() { this.$emit('began'); await new Promise(() => setInterval(() => {}, 60_000)); } }`;
  const attacking: string[] = [];
  for (let n = 0; n < 4; n++) {
    attacking.push(
      await t.deploy(`export default { name: 'Never', ${hook}, run() {} };`, { owner_id: ATTACKER }),
    );
  }
  const ended: string[] = [];
  for (const id of attacking)
    t.hook(id, 'activate').then(
      () => ended.push(id),
      () => ended.push(id),
    );
  await eventually(() => t.busy() === 2, { ms: 20_000 });
  const id = await t.deploy(
    `export default { name: 'Quick', hooks: { activate() { this.$emit('done'); } }, run() {} };`,
    { owner_id: OWNER },
  );
  expect(await t.hook(id, 'activate')).toEqual({ ok: true });
  expect(t.busy()).toBe(2);
  expect(ended).toEqual([]);
  await forget(attacking);
});
