import type { CollectionDefinition } from '../collection-definition.ts';

/** A run that has lasted for a while. A crash leaves the row until the run is repeated; the retention removes the rest. */
export interface RunningRunRow {
  /** `run_…` */
  id: string;
  /** The source or workflow. */
  emitter_id: string;
  trigger: RunTriggerName;
  started_at_ms: number;
}

export type RunTriggerName = 'http' | 'timer' | 'event' | 'manual' | 'hook';

export const runningRuns: CollectionDefinition<RunningRunRow> = {
  name: 'running_runs',
  indexes: [{ fields: ['emitter_id'] }, { fields: ['started_at_ms'] }],
};
