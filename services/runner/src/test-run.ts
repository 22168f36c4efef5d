import type { ActionCall } from '@wellspring/component/program/program-types';
import { CALLS, HOOK_DEADLINE_MS, type TestCall } from '@wellspring/contract/calls';
import { LIMITS, PLATFORM_VERSION } from '@wellspring/contract/limits';
import { newRunId } from '@wellspring/core/ids';
import { untilAborted } from '@wellspring/core/until-aborted';
import { createAccounts } from '@wellspring/runtime/accounts';
import type { Deps } from '@wellspring/runtime/deps';
import type { Quotas } from '@wellspring/runtime/quotas';
import type { BackgroundWorker } from '@wellspring/runtime/service';
import type { Task } from '@wellspring/sandbox/port';
import { type ConfigureDeps, holdBundle, secretsOf, undeployedTask } from './configure.ts';
import { createMask } from './mask-secrets.ts';
import { createRecorder } from './recorder.ts';
import type { UsageMeter } from './usage.ts';
import { withHookPermit } from './with-hook-permit.ts';

interface TestDeps extends Omit<ConfigureDeps, 'meter'>, Pick<Deps, 'clock'> {
  meter: Pick<UsageMeter, 'countRun'>;
  quotas: Pick<Quotas, 'checkOwner'>;
}

/** Serves `runner.test`. */
export function testWorker(deps: TestDeps): BackgroundWorker {
  const { call, clock, executor, meter, quotas, openRoom } = deps;
  const accounts = createAccounts(deps);

  async function test(message: TestCall['message'], signal: AbortSignal): Promise<TestCall['answer']> {
    const { type, has_run, event, ...configured } = message;
    using _ = holdBundle(deps, configured);
    const { owner_id } = configured;
    await quotas.checkOwner(owner_id);
    const undeployed = await undeployedTask(deps, accounts, configured);
    const task: Task = {
      ...undeployed,
      call:
        type === 'action'
          ? { kind: 'action', action: actionOf(undeployed.instance.values, event, owner_id, clock.now()) }
          : { kind: 'run', trigger: { kind: 'value', json: event }, emitTrigger: !has_run },
    };
    const recorder = createRecorder(createMask(secretsOf(undeployed.instance)));
    using room = openRoom(owner_id);
    const until = AbortSignal.any([signal, AbortSignal.timeout(HOOK_DEADLINE_MS)]);
    const execute = () => executor.execute(task, recorder.host, { timeoutMs: LIMITS.runMs, room });
    const result = await withHookPermit(deps, owner_id, until, execute);
    meter.countRun(owner_id, result.cpuMs);
    if (!result.ok) recorder.host.fault(result.error);
    room.charge(recorder.cost(result));
    return { ...recorder.result(), duration_ms: Math.round(result.durationMs) };
  }

  return {
    name: 'runner.test',
    async run(signal) {
      call.serve(CALLS.test, (message: TestCall['message']) => test(message, signal), signal);
      await untilAborted(signal);
    },
  };
}

/** The first step of a workflow of which nothing else exists. */
const actionOf = (
  values: Record<string, unknown>,
  event: string,
  owner_id: string,
  now: number,
): ActionCall => {
  const id = newRunId();
  const context = {
    id,
    ts: new Date(now).toISOString(),
    workflow_id: null,
    workflow_name: '',
    deployment_id: null,
    owner_id,
    platform_version: PLATFORM_VERSION,
    source_type: 'MANUAL',
    emitter_id: null,
    event_name: null,
    trace_id: id,
    verified: false,
    replay: false,
    deadline: now + LIMITS.runMs,
    JIT: true,
    test: true,
    run: { runs: 1 },
  };
  return { values, steps: { trigger: `{"event":${event},"context":${JSON.stringify(context)}}` }, context };
};
