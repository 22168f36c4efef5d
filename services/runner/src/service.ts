import type { Deps } from '@wellspring/runtime/deps';
import { createQuotas } from '@wellspring/runtime/quotas';
import type { Service } from '@wellspring/runtime/service';
import type { Executor, Packager } from '@wellspring/sandbox/port';
import { createActiveRuns } from './active-runs.ts';
import { createCatalog } from './catalog.ts';
import { createCommitGate } from './commit-gate.ts';
import { configureWorker } from './configure.ts';
import { runsWorkers } from './consume-runs.ts';
import { createOutboxRelay } from './outbox-relay.ts';
import { outboxSweep } from './outbox-sweep.ts';
import { createOwnerCosts } from './owner-costs.ts';
import { createOwnerNetworks } from './owner-networks.ts';
import { prepareWorker } from './prepare.ts';
import { createRunPermits, PERMIT_COUNTS, type PermitCounts } from './run-permits.ts';
import { createRunRooms } from './run-room.ts';
import { createRunSlots } from './run-slots.ts';
import { testWorker } from './test-run.ts';
import { createUsageMeter } from './usage.ts';

export interface RunnerDeps
  extends Pick<
    Deps,
    'store' | 'queue' | 'pubsub' | 'call' | 'clock' | 'log' | 'metrics' | 'memory' | 'seal' | 'config'
  > {
  executor: Executor;
  packager: Packager;
  /** Default: PERMIT_COUNTS. */
  permits?: PermitCounts;
  /** Default: createRunSlots. */
  openSlots?: typeof createRunSlots;
}

/** Executes user code: runs of sources and workflows, hooks, definitions, methods that configure, and test runs. */
export function createRunnerService(deps: RunnerDeps): Service {
  const { metrics, executor } = deps;
  const runs = metrics.counter('wellspring_runs_total', 'Runs of user code by result', ['result']);
  const seconds = metrics.histogram('wellspring_run_seconds', 'Duration of runs');
  metrics.gauge(
    'wellspring_sandbox_processes',
    'Sandbox processes, those started in advance included',
    () => executor.stats().processes,
  );
  metrics.gauge('wellspring_sandbox_tier', 'Isolation tier of user code: 1 for the tier in use', () => 1, {
    tier: executor.tier,
  });
  const permits = createRunPermits(deps, deps.permits ?? PERMIT_COUNTS);
  metrics.gauge('wellspring_run_permits_held', 'Run permits in use', () => permits.stats().held);
  metrics.gauge(
    'wellspring_run_permits_waiting',
    'Sources whose runs wait for a run permit',
    () => permits.stats().waiting,
  );
  const costs = createOwnerCosts(deps.clock);
  const slots = (deps.openSlots ?? createRunSlots)(costs);
  metrics.gauge(
    'wellspring_run_slots_limit',
    'Slots for runs that an owner may hold if it causes most of the work; 256: the main thread is not overloaded',
    () => slots.stats().limit,
  );
  metrics.gauge(
    'wellspring_run_slots_waiting',
    'Batches of runs that wait for a slot of their owner',
    () => slots.stats().waiting,
  );
  const openRoom = createRunRooms(deps.memory.effects, costs);
  const networks = createOwnerNetworks(deps, executor);
  const relay = createOutboxRelay(deps);
  const gate = createCommitGate(deps);
  const meter = createUsageMeter(deps);
  const quotas = createQuotas(deps);
  executor.onIdleUsage((ownerId, usage) => {
    meter.countTime(ownerId, usage.cpuMs);
    costs.charge(ownerId, { result: usage });
  });
  const active = createActiveRuns(deps);
  const observe = (result: string, duration: number) => {
    runs.inc({ result });
    seconds.observe(duration);
  };
  return {
    name: 'runner',
    workers: [
      prepareWorker({ ...deps, networks, costs, openRoom, meter }),
      configureWorker({ ...deps, networks, costs, openRoom, meter, permits }),
      testWorker({ ...deps, networks, costs, openRoom, meter, permits, quotas }),
      ...runsWorkers(
        { ...deps, active, relay, gate, meter, costs, slots, openRoom, networks, quotas, observe },
        createCatalog(deps, costs),
        permits,
      ),
      ...(deps.store.publishesCommits ? [] : [outboxSweep(deps, relay)]),
      networks.worker,
    ],
    async dispose() {
      await executor.close();
      await relay.close();
      await meter.flush();
    },
  };
}
