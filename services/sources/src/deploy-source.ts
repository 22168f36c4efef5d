import { HOOK_DEADLINE_MS } from '@wellspring/contract/calls';
import { notFound } from '@wellspring/core/problem';
import { slugOf } from '@wellspring/core/slug';
import { checkOwner } from '@wellspring/runtime/check-owner';
import { autoSubscribe } from '@wellspring/store/collections/auto-subscribe';
import {
  type DeploymentRow,
  deployments,
  type SourceRow,
  sources,
} from '@wellspring/store/collections/sources';
import type { SourcesContext } from './context.ts';
import { checkConcurrency } from './deployment.ts';
import { runHook } from './hooks.ts';
import { withFreeSlug } from './name.ts';

export interface SourceToDeploy {
  owner_id: string;
  /** Its creator. */
  user_id: string;
  /** Default: the slug of the component's name. */
  name?: string | undefined;
  /** Not stored yet. It has the id of the source. */
  deployment: DeploymentRow;
  concurrency?: number;
  /** The workflow that answers its HTTP calls. */
  reply_by?: string;
}

/**
 * Makes the source of a deployment: it runs, hidden, before its hooks do; a hook that throws undoes the creation.
 * @throws Problem 400, 404: its owner is deleted meanwhile
 */
export async function deploySource(context: SourcesContext, wanted: SourceToDeploy): Promise<SourceRow> {
  const { deps, interfaces, removeEmitter, oneAtATime, attempts } = context;
  const { owner_id, user_id, name, deployment } = wanted;
  const { source_id: id, component_id, definition } = deployment;
  const rows = deps.store.collection(sources);
  const concurrency = checkConcurrency(wanted.concurrency ?? 1, definition);

  const write = async (name_slug: string): Promise<SourceRow> => {
    const now = deps.clock.now();
    const seconds = Math.floor(now / 1000);
    const row: SourceRow = {
      id,
      owner_id,
      user_id,
      component_id,
      deployment_id: deployment.id,
      name: name ?? slugOf(definition.name),
      name_slug,
      active: true,
      concurrency,
      reply_by: wanted.reply_by ?? null,
      status: 'deploying',
      transition: {
        id: attempts.next(),
        until: now + 2 * HOOK_DEADLINE_MS,
        revert: null,
        next: deployment.id,
      },
      created_at: seconds,
      updated_at: seconds,
    };
    await rows.insert(row);
    return row;
  };

  return oneAtATime(id, async () => {
    const source = await withFreeSlug(context, owner_id, name ?? definition.name, write);
    try {
      // Its deletion does not remove a source that is inserted later.
      await checkOwner(deps.store, owner_id);
      await deps.store.collection(deployments).insert(deployment);
      await interfaces.sync(source);
      await autoSubscribe(deps.store, source, source.created_at);
      await runHook(deps, id, deployment.id, 'deploy');
      await runHook(deps, id, deployment.id, 'activate');
      // Its owner may have been deleted meanwhile, and the source with it.
      if (!(await rows.patch(id, { status: 'live', transition: null }, { status: 'deploying' })))
        throw notFound('source', id);
    } catch (error) {
      await removeEmitter(id);
      throw error;
    }
    return source;
  });
}
