import { expect, test } from '@jest/globals';
import { CALLS, type ConfigureCall, configuredFor, type TestCall } from '@wellspring/contract/calls';
import { OWNER } from '@wellspring/testing/rows';
import { seal } from '@wellspring/testing/service-harness';
import { usePlatform } from './platform.fixture.ts';
import { deployWorkflow } from './workflow.fixture.ts';

const t = usePlatform();

const CODE = `export default {
  name: 'Timed',
  props: { item: { type: 'string', optional: true, options: () => ['a'] } },
  hooks: { deploy() {} },
  run() {},
};`;

test('a run, a hook and a test run have 300 s, a method that configures 30 s', async () => {
  const limits: number[] = [];
  const id = await t.deploy(CODE);
  t.faults.execute = (timeoutMs) => void limits.push(timeoutMs);
  await t.runToEnd(id, [1]);
  expect(limits).toEqual([300_000]);
  await t.hook(id, 'deploy');
  expect(limits.splice(0)).toEqual([300_000, 300_000]);

  const { bundle_id, bundle, definition } = await t.prepare(CODE);
  limits.length = 0;
  const values = seal.seal('{}', configuredFor(OWNER));
  const component = { owner_id: OWNER, bundle_id, bundle, props: definition.props, values };
  const run: TestCall['message'] = { ...component, type: 'source', has_run: true, event: '{}' };
  await t.call.request(CALLS.test, run, { deadlineMs: 30_000 });
  const call = { kind: 'options', prop: 'item', page: 0, prevContext: {} } as const;
  const configured: ConfigureCall['message'] = { ...component, call };
  await t.call.request(CALLS.configure, configured, { deadlineMs: 30_000 });
  expect(limits).toEqual([300_000, 30_000]);
});

test.each([3_600_000, -3_600_000])(
  'the steps of a workflow share 300 s, also when the clock is set by %d ms meanwhile',
  async (ms) => {
    const limits: number[] = [];
    const { id } = await deployWorkflow(t, '$.export("a", 1)', '$.export("b", 2)');
    t.faults.execute = (timeoutMs) => {
      limits.push(timeoutMs);
      t.ahead += ms;
    };
    await t.runToEnd(id, [1]);
    expect(limits).toHaveLength(2);
    for (const limit of limits) expect(limit).toBeGreaterThan(200_000);
    for (const limit of limits) expect(limit).toBeLessThanOrEqual(300_000);
    expect(limits[1]).toBeLessThan(limits[0]!);
  },
);
