import { HOOK_DEADLINE_MS } from '@wellspring/contract/calls';
import { updateSource } from '@wellspring/contract/endpoints/sources';
import { conflict, notFound } from '@wellspring/core/problem';
import { route } from '@wellspring/http/bind';
import { components } from '@wellspring/store/collections/components';
import { deployments, type SourceRow, sources } from '@wellspring/store/collections/sources';
import {
  checkConcurrency,
  makeDeployment,
  namesComponent,
  openValues,
  resolveComponent,
} from './deployment.ts';
import { findSource } from './find-source.ts';
import { runDeactivate, runHook } from './hooks.ts';
import { checkName, withFreeSlug } from './name.ts';
import { undo } from './recover-transitions.ts';
import type { SourcesContext } from './service.ts';

/** What an update changes, decided before anything is done. */
type Change = Pick<SourceRow, 'component_id' | 'deployment_id' | 'name' | 'active' | 'concurrency'>;

/**
 * Updates a source. Everything that can be refused is refused before the first hook; from then on the row holds
 * what to go back to, so that a hook that throws, or a crash, leaves the source as it was.
 */
export const updateSourceRoute = (context: SourcesContext) => {
  const { deps, present, oneAtATime } = context;
  const rows = deps.store.collection(sources);
  return route(updateSource, ({ params, input, principal }) =>
    oneAtATime(params.id, async () => {
      const source = await findSource(deps, principal, params.id);
      if (source.status === 'updating')
        throw conflict('source_busy', 'The source is being updated at the moment.');
      const name = input.name == null ? source.name : checkName(input.name);
      const newCode = namesComponent(input);
      const redeployed = newCode || input.configured_props !== undefined;
      const component = newCode
        ? await resolveComponent(deps, principal, source.owner_id, input)
        : await deps.store.collection(components).get(source.component_id);
      if (!component) throw notFound('component', source.component_id);
      const concurrency = checkConcurrency(input.concurrency ?? source.concurrency, component.definition);
      const change: Change = { ...source, name, active: input.active ?? true, concurrency };
      if (!redeployed) {
        return present(await transition(context, source, change, input.ignore_hook_errors ?? true));
      }
      const current = await deps.store.collection(deployments).get(source.deployment_id);
      const { deployment } = await makeDeployment(
        deps,
        source.id,
        component,
        input.configured_props ?? {},
        current ? openValues(deps, current) : {},
      );
      try {
        const next = { ...change, component_id: component.id, deployment_id: deployment.id };
        return await present(await transition(context, source, next, input.ignore_hook_errors ?? true));
      } finally {
        // Whichever deployment the source does not point at is of no use any more.
        const now = await rows.get(source.id);
        const unused = now?.deployment_id === deployment.id ? source.deployment_id : deployment.id;
        if (now?.status !== 'updating') await deps.store.collection(deployments).remove(unused);
      }
    }),
  );
};

/** Takes the source from one state to the other with the hooks that belong to it. */
async function transition(
  context: SourcesContext,
  source: SourceRow,
  change: Change,
  ignoreErrors: boolean,
): Promise<SourceRow> {
  const { deps, interfaces } = context;
  const rows = deps.store.collection(sources);
  const deploymentRows = deps.store.collection(deployments);
  const redeployed = change.deployment_id !== source.deployment_id;
  const deactivates = source.active && (redeployed || !change.active);
  const activates = change.active && (redeployed || !source.active);
  if (deactivates || activates) await begin(deps, source);
  try {
    if (deactivates) await runDeactivate(deps, source.id, source.deployment_id, ignoreErrors);
    const next = await swap(deps, source, change, activates);
    const deployment = await deploymentRows.get(next.deployment_id);
    if (deployment && (redeployed || deactivates || activates || change.concurrency !== source.concurrency)) {
      await interfaces.sync(next, deployment.props, deployment.configured_props, { removeStale: !activates });
    }
    if (activates) {
      await runHook(deps, source.id, next.deployment_id, 'activate');
      await rows.patch(source.id, { status: 'live', transition: null });
      if (deployment)
        await interfaces.sync(next, deployment.props, deployment.configured_props, { removeStale: true });
    }
    return { ...next, status: 'live', transition: null };
  } catch (error) {
    if (deactivates || activates) await undo(context, source.id);
    throw error;
  }
}

/** From here on the row tells how to go back. */
async function begin({ store, clock }: SourcesContext['deps'], source: SourceRow): Promise<void> {
  const { component_id, deployment_id, name, name_slug, active, concurrency } = source;
  const began = await store.collection(sources).patch(
    source.id,
    {
      status: 'updating',
      transition: {
        until: clock.now() + 3 * HOOK_DEADLINE_MS,
        revert: { component_id, deployment_id, name, name_slug, active, concurrency },
      },
    },
    { status: 'live' },
  );
  if (!began) throw conflict('source_busy', 'The source is being updated at the moment.');
}

/** Writes the new state of the row, under a slug that is free when the name changes. */
async function swap(
  { store, clock }: SourcesContext['deps'],
  source: SourceRow,
  change: Change,
  goesOn: boolean,
): Promise<SourceRow> {
  const rows = store.collection(sources);
  const { component_id, deployment_id, name, active, concurrency } = change;
  const fields = {
    component_id,
    deployment_id,
    name,
    active,
    concurrency,
    updated_at: Math.floor(clock.now() / 1000),
    ...(goesOn ? {} : { status: 'live' as const, transition: null }),
  };
  const write = async (name_slug: string) => {
    if (!(await rows.patch(source.id, { ...fields, name_slug }))) throw notFound('source', source.id);
    return { ...source, ...fields, name_slug };
  };
  return name === source.name ? write(source.name_slug) : withFreeSlug(name, write);
}
