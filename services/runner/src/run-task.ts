import type { Task } from '@wellspring/sandbox/port';
import type { Deployed } from './catalog.ts';
import type { Live } from './live-state.ts';
import type { RunContext, SourceType } from './records.ts';

export const contextOf = (
  run_id: string,
  { source, deployment }: Deployed,
  source_type: SourceType,
  accepted_at: number,
): RunContext => ({
  run_id,
  source_id: source.id,
  owner_id: source.owner_id,
  deployment_id: deployment.id,
  source_type,
  accepted_at,
});

/** @param name of the process among those of the deployment, e.g. `run0` or `hook` */
export const taskOf = (
  { source, deployment }: Deployed,
  owner: NonNullable<Task['owner']>,
  live: Live,
  name: string,
  call: Task['call'],
): Task => ({
  process: `${source.id}/${deployment.id}/${name}`,
  bundle: deployment.bundle,
  bundleId: deployment.bundleId,
  owner,
  instance: { ...deployment.instance, db: live.db, dbRevision: live.dbRevision },
  call,
});
