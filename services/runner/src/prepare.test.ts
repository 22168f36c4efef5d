import { expect, test } from '@jest/globals';
import { createEmbeddedCall } from '@wellspring/call/embedded';
import { CALLS } from '@wellspring/contract/calls';
import { createByteBudget } from '@wellspring/core/byte-budget';
import { silentLog } from '@wellspring/core/log';
import type { Executor, Packager, Result } from '@wellspring/sandbox/port';
import { eventually } from '@wellspring/testing/eventually';
import { createOwnerCosts } from './owner-costs.ts';
import { prepareWorker } from './prepare.ts';
import { createRunRooms } from './run-room.ts';

const CRASHED: Result = {
  ok: false,
  reason: 'crash',
  error: { name: 'CrashError', message: 'The process of the code ended.', stack: '' },
  durationMs: 1,
  cpuMs: 1,
  endedProcesses: 1,
};

test('an owner whose definitions kill their processes is delayed, other owners are not', async () => {
  let now = 0;
  const slept: number[] = [];
  const sleep = async (ms: number) => {
    slept.push(ms);
    now += ms;
  };
  const costs = createOwnerCosts({ sleep }, () => now);
  const call = createEmbeddedCall({ log: silentLog });
  const stop = new AbortController();
  const bundle = { format: 'esm', code: '', packages: {}, lockfile: null } as const;
  const serving = prepareWorker({
    call,
    executor: { execute: async () => CRASHED } as Partial<Executor> as Executor,
    packager: { bundle: async () => ({ id: 'b', bundle }) } satisfies Packager,
    networks: { of: async (id) => ({ id, allowNetworks: [] }) },
    costs,
    openRoom: createRunRooms(createByteBudget(1), costs),
    meter: { countTime() {} },
  }).run(stop.signal);
  const prepare = (owner_id: string) =>
    call.request(CALLS.prepare, { code: '', owner_id }, { deadlineMs: 5000 }).catch(({ status }) => status);
  expect([await prepare('u_attacker'), await prepare('u_attacker')]).toEqual([400, 400]);
  expect(slept).toEqual([]);
  expect(await prepare('u_victim')).toBe(400);
  expect(slept).toEqual([]);
  expect(await prepare('u_attacker')).toBe(400);
  expect(slept).toHaveLength(1);
  stop.abort();
  await serving;
});

test('code is compiled only as far as its definitions can be evaluated', async () => {
  const clock = { sleep: async () => {} };
  const costs = createOwnerCosts(clock, () => 0);
  const call = createEmbeddedCall({ log: silentLog });
  const stop = new AbortController();
  const bundle = { format: 'esm', code: '', packages: {}, lockfile: null } as const;
  const held = Promise.withResolvers<void>();
  let [asked, compiled] = [0, 0];
  const execute = async () => {
    await held.promise;
    return CRASHED;
  };
  const serving = prepareWorker({
    call,
    executor: { execute } as Partial<Executor> as Executor,
    packager: { bundle: async () => ({ id: `b${++compiled}`, bundle }) } satisfies Packager,
    networks: { of: async (id) => ({ id, allowNetworks: [] }) },
    costs: { ...costs, settled: async () => void asked++ },
    openRoom: createRunRooms(createByteBudget(1), costs),
    meter: { countTime() {} },
  }).run(stop.signal);
  const answers = Array.from({ length: 40 }, () =>
    call.request(CALLS.prepare, { code: '', owner_id: 'u_1' }, { deadlineMs: 5000 }).catch(() => {}),
  );
  await eventually(() => asked === 40 && compiled > 0);
  expect(compiled).toBeLessThanOrEqual(8);
  held.resolve();
  await Promise.all(answers);
  expect(compiled).toBe(40);
  stop.abort();
  await serving;
});
