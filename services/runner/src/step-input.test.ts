import { expect, test } from '@jest/globals';
import type { RunJob } from '@wellspring/contract/messages';
import { createByteBudget } from '@wellspring/core/byte-budget';
import type { Executor } from '@wellspring/sandbox/port';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { OWNER } from '@wellspring/testing/rows';
import type { DeployedWorkflow } from './catalog.ts';
import { executeWorkflow } from './execute-workflow.ts';
import { liveState } from './live-state.ts';
import { noMask } from './mask-secrets.ts';
import { createOwnerCosts } from './owner-costs.ts';
import { createRunRooms } from './run-room.ts';
import { contextOfJob } from './run-task.ts';

const KB = 1024;
const MB = 1024 * KB;

/** Executes a workflow of ten steps without code. @returns what the run did while no time passed */
async function runSteps(
  event: unknown,
  values: Record<string, unknown> = {},
  memory = createByteBudget(MB),
  exempt: string[] = [],
) {
  const clock = createFakeClock();
  const costs = createOwnerCosts(clock, clock.now);
  let executed = 0;
  const execute: Executor['execute'] = async () => {
    executed += 1;
    return { ok: true, durationMs: 0, cpuMs: 0 };
  };
  const step = (_: unknown, n: number) => ({
    name: `step${n}`,
    cell_id: `c${n}`,
    deployment: { definition: { props: [] }, instance: { values }, mask: noMask },
  });
  const deployed = {
    emitter: { id: 'p_1', owner_id: OWNER },
    deployment: { id: 'd_1', mask: noMask },
    workflow: { name: 'Tested', steps: Array.from({ length: 10 }, step) },
  } as unknown as DeployedWorkflow;
  const payload = JSON.stringify(event);
  const trigger = { kind: 'manual', payload } as const;
  const job: RunJob = {
    v: 1,
    type: 'run',
    run_id: 'r_1',
    source_id: 'p_1',
    trigger,
    hop: 0,
    trace_id: 't',
    accepted_at: 0,
  };
  const cancel = new AbortController();
  const active = { begin: () => ({ signal: cancel.signal, end() {} }) };
  const deps = { executor: { execute }, clock, active };
  const openRoom = createRunRooms(memory, costs);
  for (const owner of exempt) {
    const other = openRoom(owner);
    other.add(20 * KB);
    void other.make(0);
  }
  const room = openRoom(OWNER);
  const end = executeWorkflow(
    deps as never,
    {
      deployed,
      job,
      live: liveState('p_1', undefined, 0),
      run: contextOfJob(job, deployed),
      owner: { id: OWNER, allowNetworks: [] },
      commitLogs() {},
      room,
    },
    () => {},
  );
  await clock.advance(0);
  return { executed, isCostly: costs.isCostly(OWNER), end, cancel, count: () => executed, room, clock };
}

test('a workflow whose steps get megabytes each pays for them, and waits for its share between them', async () => {
  expect(await runSteps('x'.repeat(1000))).toMatchObject({ executed: 10, isCostly: false });
  const empty = '{{steps.none}}'.repeat(4500);
  const templates = { texts: Array.from({ length: 90 }, () => empty) };
  for (const { executed, isCostly } of [await runSteps('x'.repeat(6 * MB)), await runSteps('x', templates)]) {
    expect(isCostly).toBe(true);
    expect(executed).toBeLessThan(5);
  }
});

const HOSTILE = Array.from({ length: 10_000 }, () => []);
const NAMED = { item: '{{steps.trigger.event[0]}}' };

test('a run holds memory for the value of the data that its expressions name, until its end', async () => {
  const memory = createByteBudget(10 * MB);
  const usual = Array.from({ length: 1000 }, (_, n) => ({
    id: n,
    name: 'a usual event',
    text: 'x'.repeat(100),
  }));
  for (const [event, values] of [
    [HOSTILE, { item: '{{steps.none}}' }],
    [usual, NAMED],
  ] as const) {
    expect(await runSteps(event, values, memory)).toMatchObject({ executed: 10 });
    expect(memory.used).toBe(0);
  }
  const { executed, room } = await runSteps(HOSTILE, NAMED, memory);
  expect(executed).toBe(10);
  expect(memory.used).toBeGreaterThan(6 * JSON.stringify(HOSTILE).length - 32 * KB);
  room.release();
  expect(memory.used).toBe(0);
});

test('without memory for the data that its expressions name, a run waits before its step, until it is cancelled', async () => {
  for (const isCancelled of [false, true]) {
    const memory = createByteBudget(MB);
    const release = memory.tryTake(MB)!;
    const run = await runSteps(HOSTILE, NAMED, memory, ['u_1', 'u_2']);
    expect(run.executed).toBe(0);
    if (isCancelled) {
      run.cancel.abort();
      expect(await run.end).toMatchObject({ end: { state: 'cancelled' } });
      expect(run.count()).toBe(0);
      run.room.release();
      release();
    } else {
      release();
      await run.end;
      expect(run.count()).toBe(10);
      expect(memory.used).toBeGreaterThan(0);
      run.room.release();
    }
    await run.clock.advance(0);
    expect(memory.used).toBe(0);
  }
});
