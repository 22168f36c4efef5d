import { HOOK_DEADLINE_MS } from '@wellspring/contract/calls';
import { newSecret } from '@wellspring/core/ids';
import type { BackgroundWorker } from '@wellspring/runtime/service';
import { type SourceRow, sources } from '@wellspring/store/collections/sources';
import type { SourcesContext } from './context.ts';
import { dropUnusedDeployments } from './deployment.ts';
import { runHook } from './hooks.ts';

const RECOVERY_INTERVAL_MS = 60_000;

interface Undoing {
  /** Id of the transition; another one is left alone. */
  attempt: string | undefined;
  /** The deactivate hook may have run: an active source is activated once more, even if its row has the former values. */
  isDeactivated: boolean;
}

/** Reverts an update: restores the row and its interfaces, and runs the activate hook of the former code. */
export async function undo(context: SourcesContext, sourceId: string, undoing: Undoing): Promise<void> {
  const { deps, interfaces, removeEmitter } = context;
  const rows = deps.store.collection(sources);
  const found = await rows.getVersioned(sourceId);
  // Deleted meanwhile, with its owner: removes rows created since then.
  if (!found || found.row.status === 'deleting') return removeEmitter(sourceId);
  const { row: source, version } = found;
  const { status, transition } = source;
  if (status !== 'updating' || !transition?.revert || transition.id !== undoing.attempt) return;
  const { revert } = transition;
  const moved = source.deployment_id !== revert.deployment_id || source.active !== revert.active;
  // A new attempt: what is left of the update writes nothing more.
  const id = newSecret();
  const until = deps.clock.now() + HOOK_DEADLINE_MS;
  const reverted = { ...source, ...revert, transition: { ...transition, id, until } };
  // The row has changed since it was read: decides anew.
  if (!(await rows.replace(reverted, version))) return undo(context, sourceId, undoing);
  await interfaces.sync(reverted);
  if (revert.active && (moved || undoing.isDeactivated)) {
    await runHook(deps, sourceId, revert.deployment_id, 'activate').catch((error: unknown) =>
      deps.log.warn({ source_id: sourceId, error: String(error) }, 'source.reactivate_failed'),
    );
  }
  // False: deleted, or recovered by another process.
  await rows.replace({ ...reverted, status: 'live', transition: null }, version + 1);
  await dropUnusedDeployments(deps, sourceId);
}

/** Finishes transitions interrupted by a crash: undoes creations, reverts updates, completes deletions. */
export function recoverTransitionsWorker(context: SourcesContext): BackgroundWorker {
  const { deps, removeEmitter, oneAtATime } = context;
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
    if (source.status === 'updating')
      await undo(context, id, { attempt: source.transition?.id, isDeactivated: true });
    // A creation that has ended since the row was read stays.
    else if (
      source.status === 'deleting' ||
      (await rows.patch(id, { status: 'deleting' }, { status: 'deploying' }))
    )
      await removeEmitter(id);
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
