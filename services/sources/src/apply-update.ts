import { isDeepStrictEqual } from 'node:util';
import { conflict, notFound, Problem } from '@wellspring/core/problem';
import {
  type DeploymentRow,
  deployments,
  type SourceRow,
  sources,
} from '@wellspring/store/collections/sources';
import type { Versioned } from '@wellspring/store/port';
import type { SourcesContext } from './context.ts';
import { MAX_STEP_MS, runDeactivate, runHook } from './hooks.ts';
import { withFreeSlug } from './name.ts';
import { undo } from './recover-transitions.ts';

/** The fields of a source that an update sets; those that it leaves as they are have their present values. */
export type NewValues = Pick<SourceRow, 'component_id' | 'deployment_id' | 'name' | 'active' | 'concurrency'>;

export const sourceBusy = () => conflict('source_busy', 'The source is being updated at the moment.');

/**
 * Gives a source new values and runs its hooks. A hook that throws, or any other error, reverts the update.
 * @param source as the new values were derived from it
 * @param deployment to store, if the values name a new one; nothing is stored if the update is refused
 * @throws Problem 400 of the hook, 409 when another process has begun an update since `source` was read or took this one
 *   for abandoned, 404 if it was deleted since
 */
export async function applyUpdate(
  context: SourcesContext,
  source: SourceRow,
  values: NewValues,
  ignoreDeactivateErrors: boolean,
  deployment?: DeploymentRow,
): Promise<SourceRow> {
  const { deps, interfaces } = context;
  const isRedeployed = values.deployment_id !== source.deployment_id;
  const needsHooks = isRedeployed || values.active !== source.active;
  const isOnlyRenamed = !needsHooks && values.concurrency === source.concurrency;
  if (isOnlyRenamed && values.name === source.name) return source;
  const attempt = await begin(context, source, values.deployment_id);
  let isDeactivated = false;
  try {
    if (deployment) await deps.store.collection(deployments).insert(deployment);
    let current = source;
    if (!isOnlyRenamed) {
      if (source.active && needsHooks) {
        isDeactivated = true;
        await runDeactivate(deps, source.id, source.deployment_id, ignoreDeactivateErrors);
      }
      if (isRedeployed) {
        await during(deps, attempt, source.id);
        await interfaces.addEndpoints(source, values.deployment_id);
      }
      // The name is changed last: until then, the former slug stays reserved for a revert.
      current = await write(context, attempt, source, { ...values, name: source.name });
      // Endpoints of removed props keep their keys until no hook can revert the update.
      await interfaces.sync(current, { removeStale: false });
      if (values.active && needsHooks) await runHook(deps, source.id, current.deployment_id, 'activate');
      if (isRedeployed) {
        await during(deps, attempt, source.id);
        await interfaces.sync(current);
      }
    }
    return await write(context, attempt, current, values, { status: 'live', transition: null });
  } catch (error) {
    // A deactivate hook that throws refuses the update: the source is still active.
    if (error instanceof Problem && error.code === 'hook_failed') isDeactivated = false;
    await undo(context, source.id, { attempt, isDeactivated });
    throw error;
  }
}

const valuesToRevert = ({
  component_id,
  deployment_id,
  name,
  name_slug,
  active,
  concurrency,
  updated_at,
}: SourceRow) => ({ component_id, deployment_id, name, name_slug, active, concurrency, updated_at });

/**
 * Keeps other updates away, and stores in the row how to revert this one and which deployment it will need.
 * @returns the id of the attempt
 */
async function begin(
  { deps: { store, clock }, attempts }: SourcesContext,
  source: SourceRow,
  next: string,
): Promise<string> {
  const rows = store.collection(sources);
  const found = await rows.getVersioned(source.id);
  if (!found || found.row.status === 'deleting') throw notFound('source', source.id);
  const revert = valuesToRevert(source);
  const isCurrent = found.row.status === 'live' && isDeepStrictEqual(valuesToRevert(found.row), revert);
  const id = attempts.next();
  const transition = { id, until: clock.now() + MAX_STEP_MS, revert, next };
  if (!isCurrent || !(await rows.replace({ ...found.row, status: 'updating', transition }, found.version)))
    throw sourceBusy();
  return id;
}

/** The source during its update. @throws Problem 404, 409 if the update has ended: another process took it for abandoned */
async function during(
  { store }: SourcesContext['deps'],
  attempt: string,
  sourceId: string,
): Promise<Versioned<SourceRow>> {
  const found = await store.collection(sources).getVersioned(sourceId);
  if (!found || found.row.status === 'deleting') throw notFound('source', sourceId);
  if (found.row.transition?.id !== attempt) throw sourceBusy();
  return found;
}

/**
 * Writes new values into the row, with a free slug if the name changes, and renews the time of the update.
 * @param end ends the update
 * @throws see `during`
 */
async function write(
  context: SourcesContext,
  attempt: string,
  source: SourceRow,
  { component_id, deployment_id, name, active, concurrency }: NewValues,
  end?: Pick<SourceRow, 'status' | 'transition'>,
): Promise<SourceRow> {
  const { deps } = context;
  const rows = deps.store.collection(sources);
  const updated_at = Math.floor(deps.clock.now() / 1000);
  const fields = { component_id, deployment_id, name, active, concurrency, updated_at };
  const writeWith = async (name_slug: string) => {
    for (;;) {
      const found = await during(deps, attempt, source.id);
      const transition = { ...found.row.transition!, until: deps.clock.now() + MAX_STEP_MS };
      const row = { ...found.row, ...fields, name_slug, transition, ...end };
      if (await rows.replace(row, found.version)) return row;
    }
  };
  return name === source.name
    ? writeWith(source.name_slug)
    : withFreeSlug(context, source.owner_id, name, writeWith);
}
