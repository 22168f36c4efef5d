import type { Definition } from '@wellspring/contract/definition';
import type { CollectionDefinition } from '../collection-definition.ts';

/** Data to undo a transition interrupted by a crash. */
export interface Transition {
  /** Of this attempt: one that was taken for abandoned and is still running writes nothing more. */
  id: string;
  /** Epoch ms after which the transition is abandoned. */
  until: number;
  /** How often an update was reverted, whose former code could not be activated. */
  reverts?: number;
  /** State to restore; null during creation: the source is removed. */
  revert: Pick<
    SourceRow,
    'component_id' | 'deployment_id' | 'name' | 'name_slug' | 'active' | 'concurrency' | 'updated_at'
  > | null;
  /** The deployment of the new state, kept while the row does not point at it yet. */
  next: string;
}

export interface SourceRow {
  id: string;
  /** A `u_` or `o_` id. */
  owner_id: string;
  /** Id of its creator. */
  user_id: string;
  component_id: string;
  deployment_id: string;
  name: string;
  name_slug: string;
  active: boolean;
  /** Concurrent runs, 1 to 10; above 1 without order. */
  concurrency: number;
  /** The workflow behind it that answers its HTTP calls; null: the run of the source answers. */
  reply_by: string | null;
  /** `deploying`: runs, but hidden until its creation is answered. `updating`: hooks in progress. `deleting`: has no owner. */
  status: 'deploying' | 'updating' | 'live' | 'deleting';
  /** While deploying or updating; null when live. */
  transition: Transition | null;
  created_at: number;
  updated_at: number;
}
export const sources: CollectionDefinition<SourceRow> = {
  name: 'sources',
  revision: { of: 'listeners' },
  indexes: [
    { fields: ['owner_id', 'name_slug'], unique: true },
    { fields: ['owner_id', 'status'] },
    { fields: ['status'] },
  ],
};

/** An immutable pairing of code and prop values; a source points at one. */
export interface DeploymentRow {
  id: string;
  source_id: string;
  component_id: string;
  bundle_id: string;
  /** Of the component, which may be deleted while the source exists. */
  definition: Definition;
  /** Values as validated, with applied defaults; those of secret props are sealed for the source id (core/seal). */
  configured_props: Record<string, unknown>;
  created_at: number;
}
export const deployments: CollectionDefinition<DeploymentRow> = {
  name: 'deployments',
  indexes: [{ fields: ['source_id'] }, { fields: ['component_id'] }, { fields: ['bundle_id'] }],
};

/** An HTTP interface of a source; what the gateway reads for each call. */
export interface EndpointRow {
  /** The key in the URL: `e…` */
  id: string;
  source_id: string;
  owner_id: string;
  /** Name of the prop. */
  prop: string;
  active: boolean;
  custom_response: boolean;
  /** Of an app hook: the event is the body of the call. */
  body_only?: true;
  /** Of the source. */
  reply_by: string | null;
  /** Of the source: calls are spread over this number of shards. */
  concurrency: number;
}
export const endpoints: CollectionDefinition<EndpointRow> = {
  name: 'endpoints',
  revision: { of: 'listeners' },
  indexes: [{ fields: ['source_id'] }],
};

/** A timer of a source; the scheduler claims due rows. */
export interface TimerRow {
  /** `<source_id>/<prop>` */
  id: string;
  source_id: string;
  prop: string;
  interval_seconds: number | null;
  cron: string | null;
  timezone: string | null;
  /** Epoch ms of the next tick; null while the source is inactive. */
  due_at: number | null;
  /** Lease: epoch ms until which one scheduler may publish the tick; null: not claimed. An expired one can be claimed. */
  lease_until: number | null;
}
export const timers: CollectionDefinition<TimerRow> = {
  name: 'timers',
  indexes: [{ fields: ['lease_until', 'due_at'] }, { fields: ['source_id'] }],
};
