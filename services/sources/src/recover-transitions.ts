import type { Worker } from '@wellspring/runtime/service';
import { deployments, sources } from '@wellspring/store/collections/sources';
import { runHook } from './hooks.ts';
import type { SourcesContext } from './service.ts';

const EVERY_MS = 60_000;

/** Brings an update back to where it began: the row, its interfaces, and the activate hook of the former code. */
export async function undo({ deps, interfaces }: SourcesContext, sourceId: string): Promise<void> {
  const rows = deps.store.collection(sources);
  const source = await rows.get(sourceId);
  const revert = source?.transition?.revert;
  if (!source || !revert) return;
  const moved = source.deployment_id !== revert.deployment_id || source.active !== revert.active;
  await rows.patch(sourceId, revert);
  const deployment = await deps.store.collection(deployments).get(revert.deployment_id);
  const before = { ...source, ...revert };
  if (deployment)
    await interfaces.sync(before, deployment.props, deployment.configured_props, { removeStale: true });
  if (revert.active && moved) {
    await runHook(deps, sourceId, revert.deployment_id, 'activate').catch((error: unknown) =>
      deps.log.warn({ source_id: sourceId, error: String(error) }, 'source.reactivate_failed'),
    );
  }
  await rows.patch(sourceId, { status: 'live', transition: null });
}

/** Finishes what a crash interrupted: creations are undone, updates brought back. */
export function recoverTransitionsWorker(context: SourcesContext): Worker {
  const { deps, removeSource } = context;
  const rows = deps.store.collection(sources);
  // Alone on its data, a process that starts knows that nobody else is working on any of them.
  let ignoreUntil = deps.config.mode === 'embedded';
  return {
    name: 'sources.recover-transitions',
    async run(signal) {
      while (!signal.aborted) {
        const now = deps.clock.now();
        for (const source of await rows.list({ where: { status: { in: ['deploying', 'updating'] } } })) {
          if (!ignoreUntil && now < (source.transition?.until ?? 0)) continue;
          deps.log.info({ source_id: source.id, status: source.status }, 'source.transition_recovered');
          if (source.status === 'deploying') await removeSource(source.id);
          else await undo(context, source.id);
        }
        ignoreUntil = false;
        await deps.clock.sleep(EVERY_MS, signal);
      }
    },
  };
}
