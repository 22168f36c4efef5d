import { Problem } from '@wellspring/core/problem';
import type { BackgroundWorker } from '@wellspring/runtime/service';
import { sources } from '@wellspring/store/collections/sources';
import type { SourcesContext } from './context.ts';
import { dropUnusedDeployments } from './deployment.ts';
import { MAX_STEP_MS, runHook } from './hooks.ts';
import { recoveryWorker } from './recovery-worker.ts';

/** Then the source becomes live without the hook: each attempt may take five minutes, in which nobody can change it. */
const MAX_REVERTS = 20;

interface Undoing {
  /** Id of the transition; another one is left alone. */
  attempt: string | undefined;
  /** The deactivate hook may have run: an active source is activated once more, even if its row has the former values. */
  isDeactivated: boolean;
}

/**
 * Reverts an update: restores the row and its interfaces, and runs the activate hook of the former code.
 * @throws Unavailable when the store or the runner does not answer: the source stays `updating`, and is recovered later
 */
export async function undo(context: SourcesContext, sourceId: string, undoing: Undoing): Promise<void> {
  const { deps, interfaces, removeEmitter, attempts } = context;
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
  const id = attempts.next();
  const until = deps.clock.now() + MAX_STEP_MS;
  const reverts = (transition.reverts ?? 0) + 1;
  const reverted = { ...source, ...revert, transition: { ...transition, id, until, reverts } };
  // The row has changed since it was read: decides anew.
  if (!(await rows.replace(reverted, version))) return undo(context, sourceId, undoing);
  await interfaces.sync(reverted);
  if (revert.active && (moved || undoing.isDeactivated)) {
    await runHook(deps, sourceId, revert.deployment_id, 'activate').catch((error: unknown) => {
      // Only the component's own failure would repeat itself.
      if (!(error instanceof Problem) && reverts < MAX_REVERTS) throw error;
      deps.log.warn({ source_id: sourceId, error: String(error) }, 'source.reactivate_failed');
    });
  }
  // False: deleted, or recovered by another process.
  await rows.replace({ ...reverted, status: 'live', transition: null }, version + 1);
  await dropUnusedDeployments(deps, sourceId);
}

/** Finishes transitions interrupted by a crash: undoes creations, reverts updates, completes deletions. */
export function recoverTransitionsWorker(context: SourcesContext): BackgroundWorker {
  const { deps, removeEmitter } = context;
  const rows = deps.store.collection(sources);
  return recoveryWorker(context, {
    name: 'sources.recover-transitions',
    kind: 'source',
    collection: sources,
    async recover({ id, status, transition }) {
      // How far it came is unknown.
      if (status === 'updating') await undo(context, id, { attempt: transition?.id, isDeactivated: true });
      // A creation that has ended since the row was read stays.
      else if (
        status === 'deleting' ||
        (await rows.patch(id, { status: 'deleting' }, { status: 'deploying' }))
      )
        await removeEmitter(id);
    },
  });
}
