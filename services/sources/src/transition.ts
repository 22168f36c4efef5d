import { HOOK_DEADLINE_MS } from '@wellspring/contract/calls';
import { conflict, notFound } from '@wellspring/core/problem';
import { type SourceRow, sources } from '@wellspring/store/collections/sources';
import type { SourcesContext } from './context.ts';
import { runDeactivate, runHook } from './hooks.ts';
import { withFreeSlug } from './name.ts';
import { undo } from './recover-transitions.ts';

/** Changes of an update, determined before they are applied. */
export type Change = Pick<SourceRow, 'component_id' | 'deployment_id' | 'name' | 'active' | 'concurrency'>;

export const busy = () => conflict('source_busy', 'The source is being updated at the moment.');

/**
 * Applies a change to a source and runs its hooks; a hook that throws reverts it.
 * @throws Problem 400 of the hook, 409 while another process updates the source, 404 if it was deleted meanwhile
 */
export async function transition(
  context: SourcesContext,
  source: SourceRow,
  change: Change,
  ignoreHookErrors: boolean,
): Promise<SourceRow> {
  const { deps, interfaces } = context;
  const redeployed = change.deployment_id !== source.deployment_id;
  const toggled = change.active !== source.active;
  if (!redeployed && !toggled && change.concurrency === source.concurrency) {
    return change.name === source.name ? source : swap(deps, source, change);
  }
  await begin(deps, source);
  try {
    if (source.active && (redeployed || toggled))
      await runDeactivate(deps, source.id, source.deployment_id, ignoreHookErrors);
    if (redeployed) await interfaces.addEndpoints(source, change.deployment_id);
    const next = await swap(deps, source, { ...change, name: source.name });
    // Endpoints of removed props are kept until the update can no longer be reverted.
    await interfaces.restore(next, { removeStale: false });
    if (change.active && (redeployed || toggled))
      await runHook(deps, source.id, next.deployment_id, 'activate');
    if (redeployed) await interfaces.restore(next);
    // The name is changed last, so that the former slug stays reserved for a revert.
    return await swap(deps, next, change, { status: 'live', transition: null });
  } catch (error) {
    await undo(context, source.id, { interrupted: false });
    throw error;
  }
}

/** Stores in the row how to revert the update. */
async function begin({ store, clock }: SourcesContext['deps'], source: SourceRow): Promise<void> {
  const { component_id, deployment_id, name, name_slug, active, concurrency, updated_at } = source;
  const began = await store.collection(sources).patch(
    source.id,
    {
      status: 'updating',
      transition: {
        until: clock.now() + 3 * HOOK_DEADLINE_MS,
        revert: { component_id, deployment_id, name, name_slug, active, concurrency, updated_at },
      },
    },
    { status: 'live' },
  );
  if (!began) throw busy();
}

/** Writes the new state of the row, with a free slug if the name changes. */
async function swap(
  { store, clock }: SourcesContext['deps'],
  source: SourceRow,
  { component_id, deployment_id, name, active, concurrency }: Change,
  end?: Pick<SourceRow, 'status' | 'transition'>,
): Promise<SourceRow> {
  const rows = store.collection(sources);
  const updated_at = Math.floor(clock.now() / 1000);
  const fields = { component_id, deployment_id, name, active, concurrency, updated_at, ...end };
  const write = async (name_slug: string) => {
    const written = await rows.patch(
      source.id,
      { ...fields, name_slug },
      { status: end ? 'updating' : { in: ['live', 'updating'] } },
    );
    if (!written) throw notFound('source', source.id);
    return { ...source, ...fields, name_slug };
  };
  return name === source.name ? write(source.name_slug) : withFreeSlug(rows, source.owner_id, name, write);
}
