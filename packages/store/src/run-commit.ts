import type { EventRow, LogRow } from './collections/events.ts';
import type { OutboxRow } from './collections/outbox.ts';
import type { EmitterStateRow } from './collections/states.ts';

/** All rows that one run, or several runs of one emitter, write. See docs/architecture.md, rule 4. */
export interface RunCommit {
  /** The whole new state; its id is that of the emitter. */
  state: EmitterStateRow;
  /** Version of the state that this one is based on; 0 for a new state. */
  ifVersion: number;
  events: readonly EventRow[];
  logs: readonly LogRow[];
  outbox?: OutboxRow | undefined;
}
