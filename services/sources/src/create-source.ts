import { HOOK_DEADLINE_MS } from '@wellspring/contract/calls';
import { createSource } from '@wellspring/contract/endpoints/sources';
import { newId } from '@wellspring/core/ids';
import { missingParameter, notFound } from '@wellspring/core/problem';
import { slugOf } from '@wellspring/core/slug';
import { route } from '@wellspring/http/bind';
import { ownerFor } from '@wellspring/http/principal';
import { autoSubscribe } from '@wellspring/store/collections/auto-subscribe';
import { deployments, type SourceRow, sources } from '@wellspring/store/collections/sources';
import type { SourcesContext } from './context.ts';
import { checkConcurrency, namesComponent, newDeployment, resolveComponent } from './deployment.ts';
import { runHook } from './hooks.ts';
import { checkName, withFreeSlug } from './name.ts';

const NO_COMPONENT =
  'One of component_id, component_code, component_url and key (of a published component) is required.';

/** Deploys a component: the source runs, hidden, before its hooks do; a hook that throws undoes the creation. */
export const createSourceRoute = ({ deps, interfaces, present, removeSource, oneAtATime }: SourcesContext) =>
  route(createSource, async ({ input, principal }) => {
    const { owner_id, user_id } = ownerFor(principal, input.org_id);
    if (!namesComponent(input)) throw missingParameter('component_id', NO_COMPONENT);
    const name = input.name == null ? undefined : checkName(input.name);
    const component = await resolveComponent(deps, principal, owner_id, input);
    const { definition } = component;
    const concurrency = checkConcurrency(input.concurrency ?? 1, definition);
    const rows = deps.store.collection(sources);
    const id = newId('dc');
    const deployment = newDeployment(deps, id, component, input.configured_props ?? {});

    const write = async (name_slug: string): Promise<SourceRow> => {
      const now = deps.clock.now();
      const seconds = Math.floor(now / 1000);
      const row: SourceRow = {
        id,
        owner_id,
        user_id,
        component_id: component.id,
        deployment_id: deployment.id,
        name: name ?? slugOf(definition.name),
        name_slug,
        active: true,
        concurrency,
        status: 'deploying',
        transition: { until: now + 2 * HOOK_DEADLINE_MS, revert: null },
        created_at: seconds,
        updated_at: seconds,
      };
      await rows.insert(row);
      return row;
    };

    return oneAtATime(id, async () => {
      const source = await withFreeSlug(rows, owner_id, name ?? definition.name, write);
      try {
        await deps.store.collection(deployments).insert(deployment);
        await interfaces.restore(source);
        await autoSubscribe(deps.store, source, source.created_at);
        await runHook(deps, id, deployment.id, 'deploy');
        await runHook(deps, id, deployment.id, 'activate');
      } catch (error) {
        await removeSource(id);
        throw error;
      }
      // Its organization may have been deleted meanwhile, and the source with it.
      if (!(await rows.patch(id, { status: 'live', transition: null }, { status: 'deploying' })))
        throw notFound('source', id);
      return present(source);
    });
  });
