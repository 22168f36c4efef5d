import type { EventRow, LogRow } from './collections/events.ts';
import type { OutboxRow } from './collections/outbox.ts';
import type { EmitterStateRow } from './collections/states.ts';

/** All rows that one run, or several runs of one emitter, write. See docs/architecture.md, rule 4. */
export interface RunCommit {
  /**
   * The whole new state; its id is that of the emitter. Its epoch is that of the lease on the partition under which the run
   * was executed (the fencing token): a commit with a lower one than the stored state has is refused for good, whatever
   * its version. Work that has no job (a hook) takes the epoch of the newest job of the state in memory, else that of the
   * stored state: such a commit is fenced by the version alone until a commit of the next owner.
   */
  state: EmitterStateRow;
  /** Version of the state that this one is based on; 0 for a new state. */
  ifVersion: number;
  events: readonly EventRow[];
  logs: readonly LogRow[];
  outbox?: OutboxRow | undefined;
}
