import { CALLS } from '@wellspring/contract/calls';
import { deleteSource } from '@wellspring/contract/endpoints/sources';
import { route } from '@wellspring/http/bind';
import { changedTopic } from '@wellspring/pubsub/port';
import { deleteSourceRows } from '@wellspring/store/collections/delete-source';
import type { SourcesContext } from './context.ts';
import { findSource } from './find-source.ts';
import { runDeactivate } from './hooks.ts';

export const deleteSourceRoute = ({ deps, removeSource, oneAtATime }: SourcesContext) =>
  route(deleteSource, ({ params, input, principal }) =>
    oneAtATime(params.id, async () => {
      const source = await findSource(deps, principal, params.id);
      if (source.active)
        await runDeactivate(deps, source.id, source.deployment_id, input.ignore_hook_errors ?? true);
      await removeSource(source.id);
    }),
  );

const FORGET_TIMEOUT_MS = 5000;

/** Removes a source with its rows, its waiting jobs and its processes. */
export const createRemoveSource =
  ({ store, queue, call, pubsub, log }: SourcesContext['deps']) =>
  async (sourceId: string): Promise<void> => {
    await deleteSourceRows(store, sourceId);
    await queue.purgeKey('runs', sourceId);
    pubsub.publish(changedTopic(sourceId));
    await call
      .request(CALLS.forget, { source_id: sourceId }, { key: sourceId, deadlineMs: FORGET_TIMEOUT_MS })
      .catch((error: unknown) =>
        log.warn({ source_id: sourceId, error: String(error) }, 'source.forget_failed'),
      );
    // A run in progress may have committed meanwhile.
    await deleteSourceRows(store, sourceId);
  };
