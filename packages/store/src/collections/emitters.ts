import type { Glob } from '@wellspring/core/glob';
import type { Store } from '../port.ts';
import { sources } from './sources.ts';
import { type WorkflowRow, workflows } from './workflows.ts';

/** The common fields of sources and workflows: code that runs, emits and listens. */
export interface Emitter {
  id: string;
  owner_id: string;
  deployment_id: string;
  /** False: it does not run. */
  active: boolean;
  /** Concurrent runs; above 1 without order. */
  concurrency: number;
}

export const isWorkflowId = (id: string): boolean => id.startsWith('p_');

/** The source or workflow with this id; undefined if it is unknown or being deleted. */
export async function findEmitter(store: Store, id: string): Promise<Emitter | undefined> {
  const row = isWorkflowId(id)
    ? await store.collection(workflows).get(id)
    : await store.collection(sources).get(id);
  if (!row || row.status === 'deleting') return undefined;
  return 'active' in row ? row : emitterOfWorkflow(row);
}

const emitterOfWorkflow = (row: WorkflowRow): Emitter => ({
  ...row,
  active: row.status !== 'deleting',
  concurrency: 1,
});

/** All sources and workflows of an owner, or those that a glob matches. */
export async function emittersOfOwner(store: Store, owner_id: string, glob?: Glob): Promise<Emitter[]> {
  const where = { owner_id };
  const [own, flows] = await Promise.all([
    glob === 'p_*' ? [] : store.collection(sources).list({ where }),
    glob === 'dc_*' ? [] : store.collection(workflows).list({ where }),
  ]);
  return [...own, ...flows.map(emitterOfWorkflow)];
}
