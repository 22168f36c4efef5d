import type { RunJob } from '@wellspring/contract/messages';
import type { Task } from '@wellspring/sandbox/port';
import type { Deployed, DeployedSource } from './catalog.ts';
import type { LiveState } from './live-state.ts';
import { type RunContext, SOURCE_TYPES, type SourceType } from './records.ts';

export const contextOf = (
  run_id: string,
  { emitter, deployment, workflow }: Deployed,
  source_type: SourceType,
  accepted_at: number,
): RunContext => ({
  run_id,
  source_id: emitter.id,
  owner_id: emitter.owner_id,
  deployment_id: deployment.id,
  source_type,
  accepted_at,
  ...(workflow && { workflow: { emitter_id: null } }),
});

export function contextOfJob(
  { run_id, trigger, accepted_at, reply_to }: RunJob,
  deployed: Deployed,
): RunContext {
  const isCall = deployed.workflow !== undefined && reply_to !== undefined;
  const context = contextOf(run_id, deployed, isCall ? 'HTTP' : SOURCE_TYPES[trigger.kind], accepted_at);
  if (!deployed.workflow || trigger.kind !== 'event') return context;
  return { ...context, workflow: { emitter_id: trigger.emitter_id } };
}

/** @param name of the process among those of the deployment, e.g. `run0` or `hook` */
export const taskOf = (
  { emitter, deployment }: DeployedSource,
  owner: NonNullable<Task['owner']>,
  live: LiveState,
  name: string,
  call: Task['call'],
): Task => ({
  processKey: `${emitter.id}/${deployment.id}/${name}`,
  bundleId: deployment.bundleId,
  readBundle: deployment.readBundle,
  owner,
  instance: { ...deployment.instance, db: live.db, dbRevision: live.dbRevision },
  call,
});
