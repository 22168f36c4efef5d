import type { ThrownError } from '@wellspring/component/program/program-types';
import { LIMITS, PLATFORM_VERSION } from '@wellspring/contract/limits';
import type { HttpReply, RunJob, Send } from '@wellspring/contract/messages';
import { untilAborted } from '@wellspring/core/until-aborted';
import { secretTexts } from '@wellspring/runtime/secret-values';
import type { Host, Result, Task } from '@wellspring/sandbox/port';
import type { DeployedWorkflow, Deployment, Step } from './catalog.ts';
import { createEffects, type Effects } from './effects.ts';
import { CANCELLED, type ExecuteDeps, type Execution, type JobToExecute, stateOf } from './execute-run.ts';
import { handlesRecords } from './job-trigger.ts';
import { allMasks, createMask, type Mask, maskError } from './mask-secrets.ts';
import { type RunContext, waitedLong } from './records.ts';
import { createStepData, type StepData } from './step-data.ts';

type Reply = Extract<HttpReply, { kind: 'response' }>;

/**
 * Executes the steps of a workflow, each in the process of its own deployment, until one throws or exits. All effects are
 * one commit, as those of a source; only log lines of a long run are committed before.
 */
export async function executeWorkflow(
  deps: ExecuteDeps,
  { deployed, job, live, run, owner, commitLogs, room }: JobToExecute<DeployedWorkflow>,
  respond: (reply: HttpReply) => void,
): Promise<Execution> {
  const { executor, clock, active } = deps;
  const { deployment, workflow } = deployed;
  const masks = [deployment.mask];
  const mask = allMasks(masks);
  let held: Reply | undefined;
  const effects = createEffects(clock, { live, run, mask, commitLogs }, (reply, immediate) => {
    if (immediate && !held) respond(reply);
    held ??= reply;
  });
  const sends: Send[] = [];
  const handles = handlesRecords(job) && { handles_records: true as const };
  const addSend =
    ({ cell_id }: Step) =>
    (kind: Send['kind'], request: string) =>
      sends.push({
        id: `${run.run_id}/${sends.length}`,
        at: run.accepted_at,
        kind,
        request,
        run_id: run.run_id,
        deployment_id: run.deployment_id,
        cell_id,
        ...handles,
      });
  const began = effects.startedAt;
  const begunAt = performance.now();
  const activeRun = active.begin(run, began, effects.flushLogs);
  const context = contextOf(job, run, workflow.name);
  const data = createStepData(job, context);
  const total = { durationMs: 0, cpuMs: 0, endedProcesses: 0 };

  async function runStep(step: Step): Promise<Result> {
    const { deployment: code } = step;
    room.add(data.toParse(code.instance.values));
    const growing = room.make(0);
    if (growing) {
      await Promise.race([growing, untilAborted(activeRun.signal)]);
      if (activeRun.signal.aborted) return refused(CANCELLED, 'aborted');
    }
    const given = data.fill(code.instance.values);
    if ('error' in given) return refused(given.error);
    masks.push(maskOfFilled(code, given.values));
    // A run may have a hundred steps, of which each gets all data.
    await room.settled(activeRun.signal);
    room.give(data.chars + given.chars);
    const excess = new AbortController();
    const { host, exceeded } = stepHost(effects, data, addSend(step), () => excess.abort());
    const task: Task = {
      processKey: `${deployed.emitter.id}/${deployment.id}/run-${step.cell_id}`,
      bundleId: code.bundleId,
      readBundle: code.readBundle,
      owner,
      instance: { ...code.instance, values: {}, db: live.db, dbRevision: live.dbRevision },
      call: {
        kind: 'action',
        action: {
          values: given.values,
          steps: data.texts(),
          context: { ...context, deadline: began + LIMITS.runMs, JIT: false, test: false, run: { runs: 1 } },
        },
      },
    };
    const timeoutMs = Math.max(1, LIMITS.runMs - (performance.now() - begunAt));
    const result = await executor.execute(task, host, {
      timeoutMs,
      signal: AbortSignal.any([excess.signal, activeRun.signal]),
      onBegin: activeRun.start,
      room,
    });
    const error = exceeded();
    if (!error) return result;
    const { durationMs, cpuMs, endedProcesses = 0 } = result;
    return { ...refused(error), durationMs, cpuMs, endedProcesses };
  }

  let result: Result = { ok: true, ...total };
  let cancelled = false;
  try {
    for (const step of workflow.steps) {
      const from = effects.errors.length;
      result = await runStep(step);
      total.durationMs += result.durationMs;
      total.cpuMs += result.cpuMs;
      total.endedProcesses += result.endedProcesses ?? 0;
      cancelled = !result.ok && result.reason === 'aborted' && activeRun.signal.aborted;
      if (!result.ok) effects.errors.push(cancelled ? { ...CANCELLED } : maskError(result.error, mask));
      for (const error of effects.errors.slice(from)) error.cell_id = step.cell_id;
      if (!result.ok || result.exit) break;
      data.finish(step.name);
    }
  } finally {
    activeRun.end();
  }
  if (held) respond(held);
  const { emits, errors, logs, sets } = effects;
  logs.push(...waitedLong(run, room.waitedMs, clock.now()));
  const { durationMs, cpuMs } = total;
  const end = { state: stateOf(cancelled, errors), durationMs, cpuMs };
  return { outcome: { emits, errors, logs }, result: { ...result, ...total }, sets, end, sends };
}

/** Masks the values that expressions gave to secret props; the mask of the deployment knows only the expressions. */
function maskOfFilled({ definition, instance }: Deployment, values: Record<string, unknown>): Mask {
  const known = new Set(secretTexts(definition.props, instance.values));
  return createMask(secretTexts(definition.props, values).filter((text) => !known.has(text)));
}

const refused = (
  error: ThrownError,
  reason: 'thrown' | 'aborted' = 'thrown',
): Extract<Result, { ok: false }> => ({
  ok: false,
  reason,
  error,
  durationMs: 0,
  cpuMs: 0,
});

/** `steps.trigger.context`, and the beginning of `$.context`. */
const contextOf = ({ trigger, trace_id }: RunJob, run: RunContext, name: string) => ({
  id: run.run_id,
  ts: new Date(run.accepted_at).toISOString(),
  workflow_id: run.source_id,
  workflow_name: name,
  deployment_id: run.deployment_id,
  owner_id: run.owner_id,
  platform_version: PLATFORM_VERSION,
  source_type: run.source_type,
  emitter_id: trigger.kind === 'event' ? trigger.emitter_id : null,
  event_name: trigger.kind === 'event' ? trigger.event_name : null,
  trace_id,
  verified: false,
  replay: trigger.kind === 'event' && trigger.replay === true,
});

/** The host of a step: its limits are those of the whole run. */
function stepHost(
  { host, errors }: Effects,
  data: StepData,
  addSend: (kind: Send['kind'], request: string) => void,
  onExcess: () => void,
): { host: Host; exceeded(): ThrownError | undefined } {
  let excess: ThrownError | undefined;
  /** False beyond a limit: the effect is dropped, and the step ended. */
  const take = (problem: string | undefined): boolean => {
    if (problem !== undefined && !excess) {
      excess = { name: 'LimitError', message: problem, stack: '' };
      onExcess();
    }
    return excess === undefined;
  };
  return {
    exceeded: () => excess,
    host: {
      ...host,
      emit(emit) {
        if (!take(data.spendEffect(Buffer.byteLength(emit.payload)))) return;
        if (emit.delivery_ts === null) host.emit(emit);
        else errors.push({ name: 'EmitError', message: 'A workflow cannot delay an event.', stack: '' });
      },
      log: (line) => take(data.spend(Buffer.byteLength(line.msg))) && host.log(line),
      dbSet(key, json) {
        const bytes = Buffer.byteLength(key) + Buffer.byteLength(json ?? '');
        return take(data.spendDbSet(bytes)) ? host.dbSet(key, json) : -1;
      },
      export: (name, json) => take(data.put(name, json)),
      send(kind, request) {
        if (take(data.spendEffect(Buffer.byteLength(request)))) addSend(kind, request);
      },
    },
  };
}
