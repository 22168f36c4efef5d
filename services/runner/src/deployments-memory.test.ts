import { expect, test } from '@jest/globals';
import { createByteBudget } from '@wellspring/core/byte-budget';
import { sources } from '@wellspring/store/collections/sources';
import { eventually } from '@wellspring/testing/eventually';
import { numbers } from '@wellspring/testing/numbers';
import { codeAllowNetworks, createGate } from './gate.fixture.ts';
import { usePlatform } from './platform.fixture.ts';
import { deployWorkflow } from './workflow.fixture.ts';

const KB = 1024;
const budget = createByteBudget(260 * KB);
const t = usePlatform({ memory: { deployments: budget }, codeAllowNetworks });

const LARGE = { text: 'x'.repeat(60 * KB) };
const code = (body: string, hooks = '') =>
  `export default { name: 'Large', props: { text: 'string' }, hooks: { ${hooks} }, async run(event) { ${body} } };`;
const ECHO = code('this.$emit(event);');
const ENDLESS = code(
  `this.$emit('began'); console.log('began'); await new Promise(() => setInterval(() => {}, 60_000));`,
);
const owner = (n: number) => ({ owner_id: `u_000000010${n}`, user_id: `u_000000010${n}` });

test('runs wait for memory for their deployments, and all are executed', async () => {
  const endless = [];
  for (let n = 0; n < 2; n += 1) endless.push(await t.deploy(ENDLESS, owner(n), LARGE));
  const others = [];
  for (let n = 2; n < 6; n += 1) others.push(await t.deploy(ECHO, owner(n), LARGE));
  for (const id of endless) await t.runAll(id, [1]);
  await eventually(() => t.busy() === 2, { ms: 20_000 });
  expect(budget.used).toBeGreaterThan(120 * KB);
  // Two more deployments have room; beside them, the others have none.
  for (const id of others) await t.runAll(id, [1, 2]);
  const used: number[] = [];
  t.faults.commit = () => void used.push(budget.used);
  await eventually(async () => (await t.queue.depth('runs')) === 2, { ms: 20_000 });
  for (const id of others) expect(await t.events(id)).toEqual([1, 2]);
  expect(Math.max(...used)).toBeLessThanOrEqual(budget.total);
  for (const id of endless) t.killCode(id);
  await t.quiet();
  expect(budget.used).toBe(0);
});

test('runs of a deployment that exceeds the memory do not hold up those of other owners', async () => {
  const endless = await t.deploy(ENDLESS, owner(0), { text: 'x'.repeat(250 * KB) });
  const other = await t.deploy(ECHO, owner(1), LARGE);
  await t.runAll(endless, [1]);
  await eventually(() => t.busy() === 1, { ms: 20_000 });
  await t.runAll(other, [1]);
  await eventually(async () => (await t.events(other)).length === 1, { ms: 20_000 });
  t.killCode(endless);
  await t.quiet();
  expect(budget.used).toBe(0);
});

test('after an update within a batch, only the new deployment takes memory', async () => {
  await using gate = await createGate();
  const id = await t.deploy(code(`if (event === 0) { ${gate.wait} } this.$emit('old');`), {}, LARGE);
  const rows = t.store.collection(sources);
  const former = (await rows.get(id))!.deployment_id;
  await t.replaceCode(id, code(`this.$emit('new');`));
  const { deployment_id } = (await rows.get(id))!;
  await rows.patch(id, { deployment_id: former });
  const used: number[] = [];
  let updated: Promise<void> | undefined;
  const update = async () => {
    const since = performance.now();
    await rows.patch(id, { deployment_id });
    // A batch rereads its source after 50 ms.
    await eventually(() => performance.now() - since > 100);
    gate.open();
  };
  t.faults.execute = () => {
    used.push(budget.used);
    updated ??= update();
  };
  await t.runToEnd(id, numbers(40));
  await updated;
  const emitted = (await t.events(id)) as string[];
  const olds = emitted.lastIndexOf('old') + 1;
  expect(emitted).toEqual([...Array(olds).fill('old'), ...Array(40 - olds).fill('new')]);
  expect([used[0]! > 60 * KB, used.at(-1)! < 60 * KB]).toEqual([true, true]);
  expect(budget.used).toBe(0);
});

test('a workflow takes memory for all of its steps', async () => {
  const step = (name: string) => ({ name, body: 'return 1;', props: `text: 'string'`, values: LARGE });
  const { id } = await deployWorkflow(t, step('one'), step('two'));
  let used = 0;
  t.faults.execute = () => {
    used = Math.max(used, budget.used);
  };
  await t.runToEnd(id, [1]);
  // The most that one counts: a step has less.
  expect(used).toBe(budget.total / 4);
  expect(budget.used).toBe(0);
});

test('a hook takes memory for its deployment', async () => {
  const id = await t.deploy(code('', `async deploy() { this.$emit('deployed'); }`), {}, LARGE);
  let used = 0;
  t.faults.execute = () => {
    used = Math.max(used, budget.used);
  };
  expect(await t.hook(id, 'deploy')).toEqual({ ok: true });
  expect(used).toBeGreaterThan(60 * KB);
  expect(budget.used).toBe(0);
});

test('a hook does not wait for the runs of its owner', async () => {
  const endless = code(
    'await new Promise(() => setInterval(() => {}, 60_000));',
    `deactivate() { this.$emit('off'); }`,
  );
  const ids = [await t.deploy(endless, {}, LARGE), await t.deploy(endless, {}, LARGE)];
  for (const id of ids) await t.runAll(id, [1]);
  await eventually(() => t.busy() === 2, { ms: 20_000 });
  await t.runAll(await t.deploy(ECHO, {}, LARGE), [1]);
  expect(await t.hook(ids[0]!, 'deactivate')).toEqual({ ok: true });
  for (const id of ids) t.killCode(id);
  await t.quiet();
  expect(budget.used).toBe(0);
});
