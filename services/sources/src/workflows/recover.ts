import type { BackgroundWorker } from '@wellspring/runtime/service';
import { workflows } from '@wellspring/store/collections/workflows';
import type { SourcesContext } from '../context.ts';
import { recoveryWorker } from '../recovery-worker.ts';
import type { Workflows } from './workflows.ts';

/** Finishes what a crash has interrupted: undoes creations, completes or reverts updates, completes deletions. */
export const recoverWorkflowsWorker = (context: SourcesContext, { recover }: Workflows): BackgroundWorker =>
  recoveryWorker(context, {
    name: 'sources.recover-workflows',
    kind: 'workflow',
    collection: workflows,
    recover,
  });
