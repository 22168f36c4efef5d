import type { CollectionDefinition } from '../collection-definition.ts';

export interface WorkflowRow {
  /** `p_…` */
  id: string;
  /** A `u_` or `o_` id. */
  owner_id: string;
  name: string;
  /** The source that triggers it: the emitter of the subscription that its deployment makes. */
  source_id: string;
  /** The workflow made this source, and deletes it. */
  made_source: boolean;
  deployment_id: string;
  /** `deploying`: hidden until its creation is answered. `updating`: a new definition is being deployed. */
  status: 'deploying' | 'updating' | 'live' | 'deleting';
  /** While deploying or updating; null when live. */
  transition: {
    /** Of this attempt: one that was taken for abandoned and is still running writes nothing more. */
    id: string;
    /** Epoch ms after which it is abandoned. */
    until: number;
    /** Sources that the workflow made or is making. When the transition ends, all but `source_id` are deleted. */
    made: string[];
    /** The former `source_id`. */
    former: string | null;
  } | null;
  created_at: number;
  updated_at: number;
}
export const workflows: CollectionDefinition<WorkflowRow> = {
  name: 'workflows',
  revision: { of: 'listeners' },
  indexes: [{ fields: ['owner_id', 'status'] }, { fields: ['status'] }],
};

/** An immutable definition of a workflow, with the deployments of its steps; a workflow points at one. */
export interface WorkflowDeploymentRow {
  id: string;
  workflow_id: string;
  name: string;
  /** JSON text, as given by the operator, but with `********` for the values of secret props. */
  definition: string;
  /** In their order; `deployment_id` is that of a row in `deployments`, whose `source_id` is the workflow. */
  steps: { name: string; cell_id: string; deployment_id: string }[];
  created_at: number;
}
export const workflowDeployments: CollectionDefinition<WorkflowDeploymentRow> = {
  name: 'workflow_deployments',
  indexes: [{ fields: ['workflow_id'] }],
  texts: ['definition'],
};
