import type { Cache } from '@wellspring/core/dedupe';
import type { CollectionDefinition } from '../collection-definition.ts';

/** The state of an emitter between its runs; written only by commitRun. */
export interface EmitterStateRow {
  /** Id of the source or workflow. */
  id: string;
  /** Of the lease under which the last commit was made; see RunCommit. */
  epoch: number;
  /** `$service.db`: JSON texts by key. */
  db: Record<string, string>;
  /** By channel name. */
  dedupe: Record<string, Cache>;
  /** Sort key of the newest id by stream (`events`, `$errors`, `$logs`, `$in`). */
  last_ids: Record<string, string>;
}

export const states: CollectionDefinition<EmitterStateRow> = { name: 'states', indexes: [] };
