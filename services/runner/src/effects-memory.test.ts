import { expect, test } from '@jest/globals';
import { CALLS, type CancelCall, type ConfigureCall, configuredFor } from '@wellspring/contract/calls';
import { type ByteBudget, createByteBudget } from '@wellspring/core/byte-budget';
import { eventually } from '@wellspring/testing/eventually';
import { OWNER } from '@wellspring/testing/rows';
import { seal } from '@wellspring/testing/service-harness';
import { usePlatform } from './platform.fixture.ts';

const KB = 1024;
const budget = createByteBudget(1024 * KB);
/** Most bytes in use at a time. */
let peak = 0;
const noted = <T>(granted: T): T => {
  peak = Math.max(peak, budget.used);
  return granted;
};
const effects: ByteBudget = {
  total: budget.total,
  get used() {
    return budget.used;
  },
  tryTake: (...request) => noted(budget.tryTake(...request)),
  count: (...request) => noted(budget.count(...request)),
  take: async (...request) => noted(await budget.take(...request)),
};
const t = usePlatform({ memory: { effects } });

const OTHER = 'u_other00001';
/** Emits so many events of 50 KB; `endless`: and never ends. */
const BULKY = `export default { name: 'Bulky', async run({ events, endless }) {
  for (let n = 0; n < events; n++) this.$emit('x'.repeat(50 * 1024));
  console.log('emitted');
  if (endless) await new Promise(() => setInterval(() => {}, 60_000));
} };`;

const emitted = async (id: string) => (await t.events(id)).length;

test('effects of runs stay within their budget until they are committed, and none is lost', async () => {
  const ids = await Promise.all(Array.from({ length: 6 }, () => t.deploy(BULKY)));
  const used: number[] = [];
  t.faults.commit = () => {
    used.push(effects.used);
    return undefined;
  };
  await Promise.all(ids.map((id) => t.runAll(id, [{ events: 6 }, { events: 6 }])));
  await t.quiet();
  for (const id of ids) expect(await emitted(id)).toBe(12);
  expect(Math.max(...used)).toBeGreaterThan(200 * KB);
  // One owner.
  expect(Math.max(...used)).toBeLessThanOrEqual(effects.total / 2);
  expect(effects.used).toBe(0);
});

test('an output whose owner holds its share waits until another run is committed, and other owners go on', async () => {
  const [first, exempt, third] = [await t.deploy(BULKY), await t.deploy(BULKY), await t.deploy(BULKY)];
  const other = await t.deploy(BULKY, { owner_id: OTHER, user_id: OTHER });
  const [run_id] = await t.runAll(first, [{ events: 8, endless: true }]);
  await eventually(async () => expect(await t.lines(first)).toEqual(['emitted']));
  const held = effects.used;
  expect(held).toBeGreaterThan(380 * KB);
  const [exemptRun] = await t.runAll(exempt, [{ events: 8, endless: true }]);
  await eventually(async () => expect(await t.lines(exempt)).toEqual(['emitted']));
  await t.runAll(third, [{ events: 4 }]);
  await t.runAll(other, [{ events: 2 }]);
  await eventually(async () => expect(await emitted(other)).toBe(2));
  expect(await emitted(third)).toBe(0);
  const cancel = (source_id: string, id: string) => {
    const message: CancelCall['message'] = { source_id, run_id: id };
    return t.call.request(CALLS.cancel, message, { key: source_id, deadlineMs: 10_000 });
  };
  await cancel(first, run_id!);
  await eventually(async () => expect(await emitted(third)).toBe(4));
  expect(await emitted(first)).toBe(8);
  await cancel(exempt, exemptRun!);
  await t.quiet();
  expect(effects.used).toBe(0);
});

test('a hook and a run whose commit fails give their memory back', async () => {
  const id = await t.deploy(`export default { name: 'Hooked', hooks: {
    deploy() { this.$emit('x'.repeat(50_000)); } }, run() { this.$emit('x'.repeat(50_000)); } };`);
  expect(await t.hook(id, 'deploy')).toEqual({ ok: true });
  expect(effects.used).toBe(0);
  const commits = t.refuseCommit();
  await t.runToEnd(id, [1]);
  expect(commits()).toBeGreaterThan(1);
  expect(effects.used).toBe(0);
  expect(await emitted(id)).toBe(2);
});

test('a definition, options and dynamic props take memory of the budget until they are answered', async () => {
  const large = "'x'.repeat(200 * 1024)";
  const taken = async <T>(work: () => Promise<T>): Promise<T> => {
    peak = 0;
    const answer = await work();
    expect(JSON.stringify(answer).length).toBeGreaterThan(200 * KB);
    expect(peak).toBeGreaterThan(150 * KB);
    expect(effects.used).toBe(0);
    return answer;
  };
  const { bundle_id, bundle, definition } = await taken(() =>
    t.prepare(`export default { name: 'Large', description: ${large}, run() {},
      props: { item: { type: 'string', options: () => [${large}] } },
      additionalProps: () => ({ more: { type: 'string', label: ${large} } }) };`),
  );
  const configure = (call: ConfigureCall['message']['call']) => {
    const values = seal.seal('{}', configuredFor(OWNER));
    const message = { owner_id: OWNER, bundle_id, bundle, props: definition.props, values, call };
    return taken(() => t.call.request(CALLS.configure, message, { deadlineMs: 30_000 }));
  };
  await configure({ kind: 'options', prop: 'item', page: 0, prevContext: {} });
  await configure({ kind: 'props' });
});
