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

const MB = 1024 * 1024;

/** Executes a workflow of ten steps without code. @returns what the run did while no time passed */
async function runSteps(eventBytes: number, values: Record<string, unknown> = {}) {
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
  const payload = JSON.stringify('x'.repeat(eventBytes));
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
  const { signal } = new AbortController();
  const deps = { executor: { execute }, clock, active: { begin: () => ({ signal, end() {} }) } };
  const room = createRunRooms(createByteBudget(MB), costs)(OWNER);
  void executeWorkflow(
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
  return { executed, isCostly: costs.isCostly(OWNER) };
}

test('a workflow whose steps get megabytes each pays for them, and waits for its share between them', async () => {
  expect(await runSteps(1000)).toEqual({ executed: 10, isCostly: false });
  const empty = '{{steps.none}}'.repeat(4500);
  const templates = { texts: Array.from({ length: 90 }, () => empty) };
  for (const { executed, isCostly } of [await runSteps(6 * MB), await runSteps(1000, templates)]) {
    expect(isCostly).toBe(true);
    expect(executed).toBeLessThan(5);
  }
});
