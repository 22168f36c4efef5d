import { CALLS } from '@wellspring/contract/calls';
import { deleteSource } from '@wellspring/contract/endpoints/sources';
import { route } from '@wellspring/http/bind';
import { changedTopic } from '@wellspring/pubsub/port';
import type { Store } from '@wellspring/store/port';
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

/**
 * Removes a source or workflow with its rows, its waiting jobs and its processes.
 * @param deleteRows removes its rows; called again for what a run in progress has committed meanwhile
 */
export const createRemoveEmitter =
  (
    { store, queue, call, pubsub, log }: SourcesContext['deps'],
    deleteRows: (store: Store, id: string) => Promise<void>,
  ) =>
  async (id: string): Promise<void> => {
    await deleteRows(store, id);
    await queue.purgeKey('runs', id);
    pubsub.publish(changedTopic(id));
    await call
      .request(CALLS.forget, { source_id: id }, { key: id, deadlineMs: FORGET_TIMEOUT_MS })
      .catch((error: unknown) => log.warn({ source_id: id, error: String(error) }, 'source.forget_failed'));
    await deleteRows(store, id);
  };
