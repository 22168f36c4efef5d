import {
  CALLS,
  type CancelCall,
  type ForgetCall,
  HOOK_DEADLINE_MS,
  type HookCall,
} from '@wellspring/contract/calls';
import type { HttpReply, RunsMessage } from '@wellspring/contract/messages';
import { parseOrderingKey } from '@wellspring/core/ordering-key';
import { notFound } from '@wellspring/core/problem';
import { Unavailable } from '@wellspring/core/unavailable';
import { untilAborted } from '@wellspring/core/until-aborted';
import type { Job } from '@wellspring/queue/port';
import { readMessage } from '@wellspring/queue/read-message';
import type { Deps } from '@wellspring/runtime/deps';
import type { BackgroundWorker } from '@wellspring/runtime/service';
import type { Catalog } from './catalog.ts';
import { describeFailure } from './describe-failure.ts';
import { type OpenDeployment, openDeployment } from './open-deployment.ts';
import type { OwnerCosts } from './owner-costs.ts';
import type { RunPermits } from './run-permits.ts';
import type { RunSlots } from './run-slots.ts';
import { createSourceState, type SourceStateDeps } from './source-state.ts';
import { createSourceStates } from './source-states.ts';
import { withHookPermit } from './with-hook-permit.ts';

/** Jobs of one source per delivery. */
const BATCH_SIZE = 64;
/** Runs sent to the process of a source before the first has ended; it executes them in order. */
const PIPELINE_DEPTH = 16;
/** A batch rereads its source after this time. */
const RELOAD_INTERVAL_MS = 50;

/** Consumes the queue `runs` and serves hook calls, on the states of the sources that this runner owns. */
export function runsWorkers(
  deps: Pick<Deps, 'store' | 'queue' | 'call' | 'log' | 'clock'> &
    Omit<SourceStateDeps, 'listenersOfRun'> & { costs: OwnerCosts; slots: RunSlots },
  catalog: Catalog,
  permits: RunPermits,
): BackgroundWorker[] {
  const { queue, call, executor, costs, slots, active, gate, memory } = deps;
  const states = createSourceStates(executor, memory.states, (sourceId) =>
    createSourceState(sourceId, { ...deps, listenersOfRun: catalog.listenersOfRun }),
  );
  const opening = { catalog, memory: memory.deployments };
  /** Drops jobs of a deleted or inactive source. */
  function refuse(messages: readonly RunsMessage[]): void {
    const reply: HttpReply = { kind: 'refused' };
    for (const message of messages) {
      if ('reply_to' in message && message.reply_to !== undefined) call.reply(message.reply_to, reply);
    }
  }

  async function handle(
    jobs: readonly [Job, ...Job[]],
    assertHeld: () => void,
    signal: AbortSignal,
  ): Promise<void> {
    const messages = jobs.map((job) => readMessage<RunsMessage>(job, ['run', 'record', 'due', 'db']));
    const sourceId = messages[0]!.source_id;
    const open = () =>
      openDeployment(opening, sourceId, { signal }).catch((error) => {
        throw signal.aborted ? new Unavailable('The process ends') : error;
      });
    using held = new DisposableStack();
    let opened = await open();
    held.defer(() => opened?.[Symbol.dispose]());
    if (!opened) return refuse(messages);
    let openedAt = performance.now();
    const pending: Promise<void>[] = [];
    const executing: Promise<void>[] = [];

    /** Rereads the source. Runs of a former deployment end before the next one takes memory. */
    async function refresh(former: OpenDeployment): Promise<void> {
      const deployed = await catalog.reload(former.deployed);
      if (deployed) opened = { ...former, deployed };
      else {
        await Promise.allSettled(pending);
        former[Symbol.dispose]();
        opened = await open();
        if (opened) used.switchTo(opened.deployed.deployment.id);
      }
      openedAt = performance.now();
    }

    const used = held.use(states.use(sourceId, opened.deployed.deployment.id));
    used.switchTo(opened.deployed.deployment.id);
    // `forget` does not know a source that was deleted before its state was in use.
    if (!(await catalog.exists(sourceId))) return refuse(messages);
    const shard = String(parseOrderingKey(jobs[0].key).shard ?? '');
    await gate.opened();
    const batch = await used.state.open(jobs[0].epoch, messages, assertHeld);
    try {
      const ownerId = opened.deployed.emitter.owner_id;
      using slot = slots.open(ownerId);
      for (const message of messages) {
        // The rest runs elsewhere at once.
        if (signal.aborted) throw new Unavailable('The process ends');
        if (costs.isCostly(ownerId)) {
          await Promise.all(executing);
          await costs.settled(ownerId, { signal });
        }
        if (message.type === 'run' || message.type === 'due') {
          batch.assertIntact();
          costs.countRun(ownerId);
          await slot.ready(signal);
        }
        if (performance.now() - openedAt > RELOAD_INTERVAL_MS) await refresh(opened);
        if (!opened) {
          refuse(messages.slice(messages.indexOf(message)));
          break;
        }
        const { deployed } = opened;
        await gate.opened();
        batch.assertIntact();
        if (message.type === 'record') {
          pending.push(batch.record(message, deployed));
          continue;
        }
        if (message.type === 'db') {
          await Promise.all(executing);
          pending.push(batch.replaceDb(message, deployed));
          continue;
        }
        if (message.type === 'due') {
          const done = batch.due(message, deployed);
          slot.add(done);
          pending.push(done);
          continue;
        }
        if (!deployed.emitter.active) {
          refuse([message]);
          // Of a call that was accepted before, the log tells why it did not run.
          if (message.trigger.kind !== 'http' && message.trigger.kind !== 'manual') continue;
        }
        // A tick is skipped depending on when the previous run ended; the steps of two runs must not mix.
        const isAlone = message.trigger.kind === 'timer' || deployed.workflow !== undefined;
        if (isAlone) await Promise.all(executing);
        else if (executing.length >= PIPELINE_DEPTH) await executing.shift();
        const { executed, done } = batch.run(message, deployed, shard);
        slot.add(done);
        pending.push(done);
        executing.push(executed);
        if (isAlone) await executed;
      }
    } finally {
      // Every run must have ended before the queue redelivers the failed ones.
      await Promise.allSettled(pending);
    }
    await Promise.all(pending);
  }

  return [
    {
      name: 'runner.runs',
      run(signal) {
        signal.addEventListener('abort', gate.close, { once: true });
        const options = { admit: permits.admit, batch: BATCH_SIZE, signal };
        return queue.consume('runs', (jobs, _, assertHeld) => handle(jobs, assertHeld, signal), options);
      },
    },
    {
      name: 'runner.hooks',
      async run(signal) {
        call.serve(
          CALLS.hook,
          async ({ source_id, deployment_id, hook }: HookCall['message']): Promise<HookCall['answer']> => {
            const until = AbortSignal.any([signal, AbortSignal.timeout(HOOK_DEADLINE_MS)]);
            const options = { deploymentId: deployment_id, signal: until };
            using opened = await openDeployment(opening, source_id, options);
            const deployed = opened?.deployed;
            if (!deployed || deployed.workflow) throw notFound('source', source_id);
            if (!deployed.deployment.definition.hooks.includes(hook)) return { ok: true };
            // Awaited: `opened` holds the memory of the deployment.
            return await withHookPermit({ permits, costs }, deployed.emitter.owner_id, until, async () => {
              // The deployment of the hook may differ from the current one, so a known state is not switched to it.
              using used = states.use(source_id, deployment_id);
              // The source may have been deleted meanwhile.
              if (!(await catalog.exists(source_id))) throw notFound('source', source_id);
              const thrown = await used.state.hook(hook, deployed, until);
              return thrown
                ? { ok: false, name: thrown.name, message: describeFailure(thrown) }
                : { ok: true };
            });
          },
          signal,
        );
        call.serve(
          CALLS.forget,
          async ({ source_id }: ForgetCall['message']): Promise<ForgetCall['answer']> => {
            executor.retire(`${source_id}/`, { atOnce: true });
            await states.forget(source_id);
            return { ok: true };
          },
          signal,
        );
        call.serve(
          CALLS.cancel,
          async ({ run_id }: CancelCall['message']): Promise<CancelCall['answer']> => ({
            found: active.cancel(run_id),
          }),
          signal,
        );
        await untilAborted(signal);
      },
    },
  ];
}
