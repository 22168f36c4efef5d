import type { BackgroundWorker } from '@wellspring/runtime/service';
import { type SourceRow, sources } from '@wellspring/store/collections/sources';
import type { SourcesContext } from './context.ts';
import { dropUnusedDeployments } from './deployment.ts';
import { runHook } from './hooks.ts';

const RECOVERY_INTERVAL_MS = 60_000;

/**
 * Reverts an update: restores the row and its interfaces, and runs the activate hook of the former code.
 * @param isDeactivated the deactivate hook may have run, so a source that was active is activated once more, even if the
 *   row has its former values
 */
export async function undo(
  context: SourcesContext,
  sourceId: string,
  { isDeactivated }: { isDeactivated: boolean },
): Promise<void> {
  const { deps, interfaces, removeSource } = context;
  const rows = deps.store.collection(sources);
  const source = await rows.get(sourceId);
  // Deleted meanwhile, with its owner: removes rows created since then.
  if (!source || source.status === 'deleting') return removeSource(sourceId);
  const revert = source.transition?.revert;
  if (source.status !== 'updating' || !revert) return;
  const moved = source.deployment_id !== revert.deployment_id || source.active !== revert.active;
  // The row has changed since it was read: decides anew.
  if (!(await rows.patch(sourceId, revert, { status: 'updating' })))
    return undo(context, sourceId, { isDeactivated });
  await interfaces.sync({ ...source, ...revert });
  if (revert.active && (moved || isDeactivated)) {
    await runHook(deps, sourceId, revert.deployment_id, 'activate').catch((error: unknown) =>
      deps.log.warn({ source_id: sourceId, error: String(error) }, 'source.reactivate_failed'),
    );
  }
  await rows.patch(sourceId, { status: 'live', transition: null }, { status: 'updating' });
  await dropUnusedDeployments(deps, sourceId);
}

/** Finishes transitions interrupted by a crash: undoes creations, reverts updates, completes deletions. */
export function recoverTransitionsWorker(context: SourcesContext): BackgroundWorker {
  const { deps, removeSource, oneAtATime } = context;
  const rows = deps.store.collection(sources);

  /** No other process is working on it. */
  const isAbandoned = ({ transition }: SourceRow) =>
    // A single process would know its own transitions.
    deps.config.mode === 'embedded' || deps.clock.now() >= (transition?.until ?? 0);

  async function recover(id: string): Promise<void> {
    // Reread: another process may have finished it meanwhile.
    const source = await rows.get(id);
    if (!source || source.status === 'live' || !isAbandoned(source)) return;
    deps.log.info({ source_id: id, status: source.status }, 'source.transition_recovered');
    // How far it came is unknown.
    if (source.status === 'updating') await undo(context, id, { isDeactivated: true });
    else await removeSource(id);
  }

  return {
    name: 'sources.recover-transitions',
    async run(signal) {
      while (!signal.aborted) {
        const found = await rows.list({ where: { status: { in: ['deploying', 'updating', 'deleting'] } } });
        for (const source of found) {
          if (signal.aborted) return;
          if (oneAtATime.busy(source.id) || !isAbandoned(source)) continue;
          await oneAtATime(source.id, () => recover(source.id)).catch((error: unknown) =>
            deps.log.error({ source_id: source.id, error: String(error) }, 'source.recovery_failed'),
          );
        }
        await deps.clock.sleep(RECOVERY_INTERVAL_MS, signal);
      }
    },
  };
}
