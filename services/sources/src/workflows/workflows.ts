import { newId } from '@wellspring/core/ids';
import { conflict, notFound, Problem } from '@wellspring/core/problem';
import { checkOwner } from '@wellspring/runtime/check-owner';
import { openValues } from '@wellspring/runtime/secret-values';
import { autoSubscribe } from '@wellspring/store/collections/auto-subscribe';
import { type DeploymentRow, deployments, sources } from '@wellspring/store/collections/sources';
import { subscriptions } from '@wellspring/store/collections/subscriptions';
import { members } from '@wellspring/store/collections/users';
import {
  type WorkflowDeploymentRow,
  type WorkflowRow,
  workflowDeployments,
  workflows,
} from '@wellspring/store/collections/workflows';
import { findOrInsert } from '@wellspring/store/insert-new';
import type { Versioned } from '@wellspring/store/port';
import type { SourcesContext } from '../context.ts';
import { MAX_TRANSITION_MS, runDeactivate } from '../hooks.ts';
import { newSteps } from './deploy-steps.ts';
import { readDefinition, type WorkflowDefinition } from './read-definition.ts';
import { checkTrigger, deploymentOf, isUnchanged, makeSource, type Trigger, withMasked } from './trigger.ts';

/** Operations on workflows. */
export interface Workflows {
  /** @throws Problem 400, 404 that names the field of the definition */
  create(ownerId: string, definition: unknown): Promise<WorkflowRow>;
  /** Deploys another definition; a failure changes nothing. @throws Problem 400, 404, 409 */
  replace(id: string, definition: unknown): Promise<WorkflowRow>;
  remove(id: string): Promise<void>;
  /** The workflow, if its creation was answered. @throws Problem 404 */
  find(id: string): Promise<WorkflowRow>;
  /** Completes or undoes what a crash has interrupted. */
  recover(row: WorkflowRow): Promise<void>;
}

const workflowBusy = () => conflict('workflow_busy', 'The workflow is being updated at the moment.');

interface Prepared {
  definition: WorkflowDefinition;
  /** Undefined: the current source stays. */
  trigger: Trigger | undefined;
  deployment: WorkflowDeploymentRow;
  steps: DeploymentRow[];
}

export function createWorkflows(context: SourcesContext): Workflows {
  const { deps, removeEmitter, oneAtATime, attempts } = context;
  const { store, clock } = deps;
  const rows = store.collection(workflows);
  const deploymentRows = store.collection(workflowDeployments);
  const stepRows = store.collection(deployments);
  const subscriptionRows = store.collection(subscriptions);
  const seconds = () => Math.floor(clock.now() / 1000);
  const until = () => clock.now() + MAX_TRANSITION_MS;

  /** Owners whose sources and components a workflow of this owner may use. */
  async function readersOf(ownerId: string): Promise<string[]> {
    await checkOwner(store, ownerId);
    const memberships = await store.collection(members).list({ where: { user_id: ownerId } });
    return [ownerId, ...memberships.map(({ org_id }) => org_id)];
  }

  /** All checks, before anything is written. */
  async function prepare(
    workflow: { id: string; owner_id: string },
    given: unknown,
    before?: WorkflowRow,
  ): Promise<Prepared> {
    const definition = readDefinition(given);
    const readers = await readersOf(workflow.owner_id);
    const current = before && (await deploymentRows.get(before.deployment_id));
    const parts = given as { trigger: unknown; steps: unknown[] };
    const former = current && JSON.parse(current.definition).trigger;
    const deployed = before && (await deploymentOf(context, before));
    const stays = deployed !== undefined && isUnchanged(context, deployed, former, parts.trigger);
    // Secrets of a source that the workflow did not make are not its own.
    const own = before?.made_source ? deployed : undefined;
    const trigger = stays
      ? undefined
      : await checkTrigger(context, { ...workflow, readers }, definition.trigger, own);
    const { steps, rows: made } = await newSteps(
      context,
      { ...workflow, readers },
      definition,
      await valuesOf(current),
    );
    const masked = {
      ...parts,
      trigger:
        trigger === undefined
          ? former
          : 'deployment' in trigger
            ? withMasked(parts.trigger, trigger.deployment.definition.props)
            : parts.trigger,
      steps: parts.steps.map((step, index) => withMasked(step, made[index]!.definition.props)),
    };
    const deployment = {
      id: newId('d'),
      workflow_id: workflow.id,
      name: definition.name,
      definition: JSON.stringify(masked),
      steps,
      created_at: seconds(),
    };
    return { definition, trigger, deployment, steps: made };
  }

  /** Values of its steps by their names, with secrets in clear. */
  async function valuesOf(current: WorkflowDeploymentRow | undefined) {
    const values = new Map<string, Record<string, unknown>>();
    for (const { name, deployment_id } of current?.steps ?? []) {
      const row = await stepRows.get(deployment_id);
      if (row) values.set(name, openValues(deps, row));
    }
    return values;
  }

  async function write(deployment: WorkflowDeploymentRow, steps: readonly DeploymentRow[]): Promise<void> {
    for (const step of steps) await stepRows.insert(step);
    await deploymentRows.insert(deployment);
  }

  /**
   * The workflow during a transition. @throws Problem 404 if it was deleted, 409 if another process took the transition
   * for abandoned
   */
  async function during(id: string, attempt: string | undefined): Promise<Versioned<WorkflowRow>> {
    const found = await rows.getVersioned(id);
    if (!found || found.row.status === 'deleting') throw notFound('workflow', id);
    if (found.row.transition === null || found.row.transition.id !== attempt) throw workflowBusy();
    return found;
  }

  /** Ends a transition, also one of a crashed process. Idempotent. @throws see `during` */
  async function finish(id: string, attempt: string): Promise<WorkflowRow> {
    const { row, version } = await during(id, attempt);
    const { owner_id, source_id, transition } = row;
    const triple = { owner_id, emitter_id: source_id, listener_id: id, event_name: '' };
    if (await store.collection(sources).get(source_id)) {
      await findOrInsert(subscriptionRows, triple, () => ({
        id: newId('sub'),
        user_id: owner_id,
        ...triple,
        created_at: seconds(),
      }));
    }
    const former = transition?.former ?? null;
    if (former !== null && former !== source_id) {
      await subscriptionRows.removeWhere({ owner_id, emitter_id: former, listener_id: id, event_name: '' });
    }
    for (const made of transition?.made ?? []) if (made !== source_id) await dropSource(made);
    await dropDeployments(row, attempt);
    const live: WorkflowRow = { ...row, status: 'live', transition: null };
    return (await rows.replace(live, version)) ? live : finish(id, attempt);
  }

  /** Removes the source that a workflow made, after its deactivate hook. */
  async function dropSource(sourceId: string): Promise<void> {
    const source = await store.collection(sources).get(sourceId);
    if (!source) return;
    await oneAtATime(sourceId, async () => {
      if (source.active && source.status === 'live')
        await runDeactivate(deps, sourceId, source.deployment_id, true);
      await removeEmitter(sourceId);
    });
  }

  async function dropDeployments({ id, deployment_id }: WorkflowRow, attempt: string): Promise<void> {
    const current = await deploymentRows.get(deployment_id);
    const kept = new Set(current?.steps.map((step) => step.deployment_id));
    const steps = await stepRows.list({ where: { source_id: id } });
    const all = await deploymentRows.list({ where: { workflow_id: id } });
    // Hooks ran since the transition was read: a later update may have stored what is listed.
    await during(id, attempt);
    for (const one of steps) if (!kept.has(one.id)) await stepRows.remove(one.id);
    for (const one of all) if (one.id !== deployment_id) await deploymentRows.remove(one.id);
  }

  async function discard(row: WorkflowRow): Promise<void> {
    await rows.patch(row.id, { status: 'deleting' });
    const made = new Set(row.transition?.made);
    if (row.made_source) made.add(row.source_id);
    for (const id of made) await dropSource(id);
    await removeEmitter(row.id);
  }

  async function find(id: string): Promise<WorkflowRow> {
    const row = await rows.get(id);
    if (!row || row.status === 'deploying' || row.status === 'deleting') throw notFound('workflow', id);
    return row;
  }

  return {
    async create(owner_id, given) {
      const id = newId('p');
      const { definition, trigger, deployment, steps } = await prepare({ id, owner_id }, given);
      const made = 'deployment' in trigger! ? trigger.deployment.source_id : undefined;
      const attempt = attempts.next();
      const row: WorkflowRow = {
        id,
        owner_id,
        name: definition.name,
        source_id: 'source_id' in trigger! ? trigger.source_id : made!,
        made_source: made !== undefined,
        deployment_id: deployment.id,
        status: 'deploying',
        transition: { id: attempt, until: until(), made: made === undefined ? [] : [made], former: null },
        created_at: seconds(),
        updated_at: seconds(),
      };
      return oneAtATime(id, async () => {
        await rows.insert(row);
        try {
          // Its deletion does not remove a workflow that is inserted later.
          await checkOwner(store, owner_id);
          await write(deployment, steps);
          if ('deployment' in trigger!) await makeSource(context, row, definition, trigger.deployment);
          await autoSubscribe(store, row, row.created_at);
          return await finish(id, attempt);
        } catch (error) {
          await discard(row);
          throw error;
        }
      });
    },

    replace: (id, given) =>
      oneAtATime(id, async () => {
        const before = await find(id);
        const { definition, trigger, deployment, steps } = await prepare(before, given, before);
        const made = trigger && 'deployment' in trigger ? trigger.deployment.source_id : undefined;
        const source_id = trigger && 'source_id' in trigger ? trigger.source_id : (made ?? before.source_id);
        const attempt = attempts.next();
        const transition = {
          id: attempt,
          until: until(),
          made: [...(before.made_source ? [before.source_id] : []), ...(made === undefined ? [] : [made])],
          former: before.source_id,
        };
        const found = await rows.getVersioned(id);
        // After an update by another process, the source that this one keeps may be deleted.
        const isCurrent = found?.row.status === 'live' && found.row.deployment_id === before.deployment_id;
        if (
          !isCurrent ||
          !(await rows.replace({ ...found.row, status: 'updating', transition }, found.version))
        )
          throw workflowBusy();
        try {
          await write(deployment, steps);
          if (trigger && 'deployment' in trigger)
            await makeSource(context, before, definition, trigger.deployment);
          const { row, version } = await during(id, attempt);
          const next = {
            ...row,
            name: definition.name,
            source_id,
            made_source: trigger === undefined ? before.made_source : made !== undefined,
            deployment_id: deployment.id,
            updated_at: seconds(),
          };
          if (!(await rows.replace(next, version))) throw workflowBusy();
        } catch (error) {
          await finish(id, attempt).catch(async (reason: unknown) => {
            // The process that took over does not know of a source that was made since.
            if (made !== undefined && (await rows.get(id))?.source_id !== made) await dropSource(made);
            // The error is then a consequence, e.g. that its source is gone.
            if (reason instanceof Problem && reason.code === 'workflow_busy') throw reason;
          });
          throw error;
        }
        return finish(id, attempt);
      }),

    remove: (id) => oneAtATime(id, async () => discard(await find(id))),

    find,

    async recover(row) {
      // A creation that has ended since the row was read stays.
      const isCreation = row.status === 'deploying';
      if (isCreation && !(await rows.patch(row.id, { status: 'deleting' }, { status: 'deploying' }))) return;
      if (row.status !== 'updating') return discard(row);
      const { row: found, version } = await during(row.id, row.transition?.id);
      // A new attempt: what is left of the former writes nothing more.
      const attempt = attempts.next();
      const transition = { ...found.transition!, id: attempt, until: until() };
      if (await rows.replace({ ...found, transition }, version)) await finish(row.id, attempt);
    },
  };
}
