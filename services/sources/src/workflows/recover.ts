import type { BackgroundWorker } from '@wellspring/runtime/service';
import { type WorkflowRow, workflows } from '@wellspring/store/collections/workflows';
import type { SourcesContext } from '../context.ts';
import type { Workflows } from './workflows.ts';

const RECOVERY_INTERVAL_MS = 60_000;

/** Finishes what a crash has interrupted: undoes creations, completes or reverts updates, completes deletions. */
export function recoverWorkflowsWorker(
  { deps, oneAtATime }: SourcesContext,
  { recover }: Workflows,
): BackgroundWorker {
  const rows = deps.store.collection(workflows);

  /** No other process is working on it. */
  const isAbandoned = ({ transition }: WorkflowRow) =>
    // A single process would know its own transitions.
    deps.config.mode === 'embedded' || deps.clock.now() >= (transition?.until ?? 0);

  return {
    name: 'sources.recover-workflows',
    async run(signal) {
      while (!signal.aborted) {
        const found = await rows.list({ where: { status: { in: ['deploying', 'updating', 'deleting'] } } });
        for (const { id } of found) {
          if (signal.aborted) return;
          if (oneAtATime.busy(id)) continue;
          await oneAtATime(id, async () => {
            // Reread: another process may have finished it meanwhile.
            const row = await rows.get(id);
            if (!row || row.status === 'live' || !isAbandoned(row)) return;
            deps.log.info({ workflow_id: id, status: row.status }, 'workflow.transition_recovered');
            await recover(row);
          }).catch((error: unknown) =>
            deps.log.error({ workflow_id: id, error: String(error) }, 'workflow.recovery_failed'),
          );
        }
        await deps.clock.sleep(RECOVERY_INTERVAL_MS, signal);
      }
    },
  };
}
