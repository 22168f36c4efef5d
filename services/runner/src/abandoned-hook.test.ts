import { expect, test } from '@jest/globals';
import { systemClock } from '@wellspring/core/clock';
import { createQuotas } from '@wellspring/runtime/quotas';
import { OWNER } from '@wellspring/testing/rows';
import { useHarness } from '@wellspring/testing/service-harness';
import { createActiveRuns } from './active-runs.ts';
import type { DeployedSource } from './catalog.ts';
import { createCommitGate } from './commit-gate.ts';
import { noMask } from './mask-secrets.ts';
import { createOutboxRelay } from './outbox-relay.ts';
import { createOwnerCosts } from './owner-costs.ts';
import { createRunRooms } from './run-room.ts';
import { createSourceState, type SourceStateDeps } from './source-state.ts';
import { createUsageMeter } from './usage.ts';

const t = useHarness();

const deployed = {
  emitter: { id: 'dc_0000000001', owner_id: OWNER },
  deployment: { id: 'd_0000000001', mask: noMask, definition: { dedupe: null }, instance: {} },
  logsWanted: false,
} as unknown as DeployedSource;

/** A source whose hooks wait while the store takes no commits. */
function openState() {
  const [waiting, opened] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const opensLater = () => {
    waiting.resolve();
    return opened.promise;
  };
  let executions = 0;
  const execute = async () => {
    executions += 1;
    return { ok: true, durationMs: 0, cpuMs: 0 };
  };
  const state = createSourceState('dc_0000000001', {
    ...t,
    executor: { execute, retire() {} },
    active: createActiveRuns(t),
    relay: createOutboxRelay(t),
    gate: { ...createCommitGate(t), opened: opensLater },
    meter: createUsageMeter(t),
    openRoom: createRunRooms(t.memory.effects, createOwnerCosts(systemClock)),
    networks: { of: async (id: string) => ({ id, allowNetworks: [] }) },
    quotas: createQuotas(t),
    listenersOfRun: async () => ({ unheard: new Set() }),
    observe() {},
  } as unknown as SourceStateDeps);
  return { state, waiting: waiting.promise, open: opened.resolve, executions: () => executions };
}

test('a hook whose caller gives up while the store takes no commits is not executed', async () => {
  const { state, waiting, open, executions } = openState();
  const caller = new AbortController();
  const hook = state.hook('deploy', deployed, caller.signal);
  await waiting;
  caller.abort(new Error('given up'));
  open();
  await expect(hook).rejects.toThrow('given up');
  expect(executions()).toBe(0);

  await state.hook('deploy', deployed, new AbortController().signal);
  expect(executions()).toBe(1);
});

test('a hook whose source is deleted while the store takes no commits is not executed', async () => {
  const { state, waiting, open, executions } = openState();
  const hook = state.hook('deploy', deployed, new AbortController().signal);
  await waiting;
  await state.forget();
  open();
  await expect(hook).rejects.toMatchObject({ status: 404 });
  expect(executions()).toBe(0);
});
