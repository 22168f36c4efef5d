import { expect, test } from '@jest/globals';
import { createEmbeddedCall } from '@wellspring/call/embedded';
import { CALLS, type PrepareCall } from '@wellspring/contract/calls';
import { createByteBudget } from '@wellspring/core/byte-budget';
import { silentLog } from '@wellspring/core/log';
import { createMemory } from '@wellspring/core/memory';
import type { Executor, Result } from '@wellspring/sandbox/port';
import { eventually } from '@wellspring/testing/eventually';
import { closeAfterEach } from '@wellspring/testing/lifetimes';
import { createOwnerCosts } from './owner-costs.ts';
import { type PrepareDeps, prepareWorker } from './prepare.ts';
import { createRunRooms } from './run-room.ts';

const CRASHED: Result = {
  ok: false,
  reason: 'crash',
  error: { name: 'CrashError', message: 'The process of the code ended.', stack: '' },
  durationMs: 1,
  cpuMs: 1,
  endedProcesses: 1,
};

const closing = closeAfterEach();

/** Serves the call; the definitions that it reads crash. @returns the status of its answer, and what it has compiled */
function serve({
  execute = async () => CRASHED,
  ...tuning
}: Partial<PrepareDeps & Pick<Executor, 'execute'>> = {}) {
  const costs = createOwnerCosts({ sleep: async () => {} }, () => 0);
  const call = createEmbeddedCall({ log: silentLog });
  const stop = new AbortController();
  const bundle = { format: 'esm', code: '', packages: {}, lockfile: null } as const;
  const compiled: string[] = [];
  const serving = prepareWorker({
    call,
    executor: { execute } as Partial<Executor> as Executor,
    packager: {
      async bundle({ code }) {
        compiled.push(code);
        return { id: `b${compiled.length}`, bundle };
      },
    },
    networks: { of: async (id) => ({ id, allowNetworks: [] }) },
    // Code of these tests may be larger than the share of its owner.
    costs: { charge() {}, settled: async () => {} },
    memory: createMemory(1),
    openRoom: createRunRooms(createByteBudget(1), costs),
    meter: { countTime() {} },
    ...tuning,
  }).run(stop.signal);
  closing({
    async close() {
      stop.abort();
      await serving;
    },
  });
  const prepare = (owner_id: string, code = ''): Promise<number | undefined> => {
    const message: PrepareCall['message'] = { code, owner_id };
    return call.request(CALLS.prepare, message, { deadlineMs: 5000 }).then(
      () => 200,
      ({ status }) => status,
    );
  };
  return { prepare, compiled };
}

/** An execution that waits until it is released. */
function holdExecution() {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { execute: () => promise.then(() => CRASHED), release: resolve };
}

test('an owner whose definitions kill their processes is delayed, other owners are not', async () => {
  let now = 0;
  const slept: number[] = [];
  const sleep = async (ms: number) => {
    slept.push(ms);
    now += ms;
  };
  const costs = createOwnerCosts({ sleep }, () => now);
  const { prepare } = serve({ costs, openRoom: createRunRooms(createByteBudget(1), costs) });
  expect([await prepare('u_attacker'), await prepare('u_attacker')]).toEqual([400, 400]);
  expect(slept).toEqual([]);
  expect(await prepare('u_victim')).toBe(400);
  expect(slept).toEqual([]);
  expect(await prepare('u_attacker')).toBe(400);
  expect(slept).toHaveLength(1);
});

test('code is compiled only as far as its definitions can be evaluated', async () => {
  const { execute, release } = holdExecution();
  let asked = 0;
  const costs = { charge() {}, settled: async () => void asked++ };
  const { prepare, compiled } = serve({ costs, execute });
  const answers = Array.from({ length: 40 }, () => prepare('u_1'));
  await eventually(() => asked === 40 && compiled.length > 0);
  expect(compiled.length).toBeLessThanOrEqual(8);
  release();
  await Promise.all(answers);
  expect(compiled).toHaveLength(40);
});

test('code that waits takes memory: of 40 MB, what does not fit into 8 MB is refused', async () => {
  const { execute, release } = holdExecution();
  const memory = createMemory(1);
  const { prepare } = serve({ memory, execute });
  const code = 'x'.repeat(1024 ** 2);
  let refused = 0;
  const answers = Array.from({ length: 40 }, (_, n) =>
    prepare(`u_${n % 4}`, code).then((status) => {
      if (status === 503) refused += 1;
      return status;
    }),
  );
  await eventually(() => refused >= 32);
  expect(memory.deployments.used).toBe((40 - refused) * code.length);
  release();
  expect(new Set(await Promise.all(answers))).toEqual(new Set([400, 503]));
  expect(memory.deployments.used).toBe(0);
});

test('code is not compiled any more when its caller has got an error', async () => {
  const { execute, release } = holdExecution();
  const { prepare, compiled } = serve({ execute, deadlineMs: 100 });
  const first = Array.from({ length: 8 }, () => prepare('u_1', 'first'));
  // Its deadline passes while it waits for one of the permits.
  expect(await prepare('u_1', 'late')).toBeUndefined();
  release();
  await Promise.all(first);
  expect(await prepare('u_1', 'next')).toBe(400);
  expect(new Set(compiled)).toEqual(new Set(['first', 'next']));
});
