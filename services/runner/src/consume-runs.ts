import { CALLS, type ForgetCall, HOOK_DEADLINE_MS, type HookCall } from '@wellspring/contract/calls';
import type { HttpReply, RunsMessage } from '@wellspring/contract/messages';
import { parseOrderingKey } from '@wellspring/core/ordering-key';
import { notFound } from '@wellspring/core/problem';
import { type Job, PoisonJob } from '@wellspring/queue/port';
import type { Deps } from '@wellspring/runtime/deps';
import type { Worker } from '@wellspring/runtime/service';
import type { SourceRow } from '@wellspring/store/collections/sources';
import { subscriptions } from '@wellspring/store/collections/subscriptions';
import type { Catalog, Deployed } from './catalog.ts';
import { createLane, type Lane, type LaneDeps } from './lane.ts';
import type { OwnerCosts } from './owner-costs.ts';
import { repeatedRuns } from './repeated.ts';
import type { RunSlots } from './run-slots.ts';

/** Runs of one source handed over at a time. */
const BATCH = 64;
/** Runs of one source handed to its process ahead; it carries them out one after the other. */
const AHEAD = 16;
/** A batch of slow runs follows changes of its source after this time. */
const LOOK_AGAIN_MS = 50;
/** Lanes kept in memory; the idle ones beyond are read again when they are needed. */
const KEPT_LANES = 5000;

/** The lanes of the sources that this runner holds, and what brings them work: the queue `runs` and the hooks. */
export function runsWorkers(
  deps: Pick<Deps, 'store' | 'queue' | 'call' | 'log' | 'clock'> & LaneDeps & { costs: OwnerCosts },
  catalog: Catalog,
  slots: RunSlots,
): Worker[] {
  const { queue, call, store, executor, costs } = deps;
  const lanes = new Map<string, { lane: Lane; deploymentId: string; ownerId: string }>();
  const subscriptionRows = store.collection(subscriptions);

  /** The lane of a source; processes of its former code are ended. */
  function laneOf({ source, deployment }: Deployed): Lane {
    const known = lanes.get(source.id);
    if (known) {
      lanes.delete(source.id);
      lanes.set(source.id, known);
      if (known.deploymentId !== deployment.id) {
        executor.retire(`${source.id}/${known.deploymentId}/run`);
        known.deploymentId = deployment.id;
      }
      return known.lane;
    }
    const lane = createLane(source.id, deps);
    lanes.set(source.id, { lane, deploymentId: deployment.id, ownerId: source.owner_id });
    if (lanes.size > KEPT_LANES) {
      for (const [id, old] of lanes) {
        if (old.lane.busy || id === source.id) continue;
        lanes.delete(id);
        break;
      }
    }
    return lane;
  }

  const logsWanted = async ({ id, owner_id }: Pick<SourceRow, 'id' | 'owner_id'>) =>
    (await subscriptionRows.count({ emitter_id: { in: [id, 'dc_*', owner_id] }, event_name: '$logs' }, 1)) >
    0;

  /** Jobs of a source that is gone or inactive are dropped. */
  function refuse(messages: readonly RunsMessage[]): void {
    const reply: HttpReply = { kind: 'refused' };
    for (const message of messages) {
      if (message.type === 'run' && message.reply_to !== undefined) call.reply(message.reply_to, reply);
    }
  }

  /** The source as it is now. */
  async function look(sourceId: string) {
    // A source never changes its owner.
    const owner_id = lanes.get(sourceId)?.ownerId;
    const early = owner_id === undefined ? undefined : logsWanted({ id: sourceId, owner_id });
    const [deployed, known] = await Promise.all([catalog.load(sourceId), early]);
    if (!deployed) return undefined;
    const wanted = known ?? (await logsWanted(deployed.source));
    return { at: performance.now(), deployed, lane: laneOf(deployed), wanted };
  }

  async function handle(jobs: readonly [Job, ...Job[]]): Promise<void> {
    const messages = jobs.map(decode);
    const sourceId = messages[0]!.source_id;
    let now = await look(sourceId);
    if (!now) return refuse(messages);
    const slot = String(parseOrderingKey(jobs[0].key).shard ?? '');
    const repeated = await repeatedRuns(store, sourceId, messages);
    const batch = await now.lane.open();
    const pending: Promise<void>[] = [];
    const ahead: Promise<void>[] = [];
    try {
      const ownerId = now.deployed.source.owner_id;
      for (const message of messages) {
        if (costs.isCostly(ownerId)) {
          await Promise.all(ahead);
          await costs.settled(ownerId);
        }
        if (performance.now() - now.at > LOOK_AGAIN_MS) now = await look(sourceId);
        if (!now) {
          refuse(messages.slice(messages.indexOf(message)));
          break;
        }
        const { deployed, wanted } = now;
        batch.assertIntact();
        if (message.type === 'record') {
          pending.push(batch.record(message, deployed));
          continue;
        }
        if (!deployed.source.active) {
          refuse([message]);
          continue;
        }
        // Whether a tick is skipped depends on when the run before it ended.
        if (message.trigger.kind === 'timer') await Promise.all(ahead);
        else if (ahead.length >= AHEAD) await ahead.shift();
        const { executed, done } = batch.run(message, deployed, {
          slot,
          logsWanted: wanted,
          isRepeated: repeated.has(message.run_id),
        });
        pending.push(done);
        ahead.push(executed);
        if (message.trigger.kind === 'timer') await executed;
      }
    } finally {
      // Nothing may be under way any more when the queue hands out again what failed.
      await Promise.allSettled(pending);
    }
    await Promise.all(pending);
  }

  return [
    {
      name: 'runner.runs',
      run: (signal) => queue.consume('runs', handle, { admit: slots.admit, batch: BATCH, signal }),
    },
    {
      name: 'runner.hooks',
      async run(signal) {
        call.serve(
          CALLS.hook,
          async ({ source_id, deployment_id, hook }: HookCall['message']): Promise<HookCall['answer']> => {
            const deployed = await catalog.load(source_id, deployment_id);
            if (!deployed) throw notFound('source', source_id);
            if (!deployed.deployment.definition.hooks.includes(hook)) return { ok: true };
            // After the deadline nobody waits for the answer any more.
            const until = AbortSignal.any([signal, AbortSignal.timeout(HOOK_DEADLINE_MS)]);
            await costs.settled(deployed.source.owner_id);
            const release = await slots.hook(deployed.source.owner_id, until);
            try {
              // It may have been deleted while it waited.
              if (!(await catalog.load(source_id, deployment_id))) throw notFound('source', source_id);
              // The hook may be that of other code than what runs: the lane keeps its own.
              const lane = lanes.get(source_id)?.lane ?? laneOf(deployed);
              const thrown = await lane.hook(hook, deployed, await logsWanted(deployed.source));
              return thrown ? { ok: false, name: thrown.name, message: thrown.message } : { ok: true };
            } finally {
              release();
            }
          },
          signal,
        );
        call.serve(
          CALLS.forget,
          async ({ source_id }: ForgetCall['message']): Promise<ForgetCall['answer']> => {
            executor.retire(`${source_id}/`, { atOnce: true });
            lanes.get(source_id)?.lane.forget();
            lanes.delete(source_id);
            return { ok: true };
          },
          signal,
        );
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      },
    },
  ];
}

function decode(job: Job): RunsMessage {
  const message = JSON.parse(job.payload) as RunsMessage;
  if (message.v !== 1 || (message.type !== 'run' && message.type !== 'record')) {
    throw new PoisonJob(job.id, `Unknown message on runs: ${String(message.type)}.`);
  }
  return job.redelivered && message.type === 'run' ? { ...message, redelivered: true } : message;
}
