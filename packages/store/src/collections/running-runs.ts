import type { CollectionDefinition } from '../collection-definition.ts';

/** A run that takes long. After a crash the row stays until the run is repeated, or the retention removes it. */
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
