import type { DelayedEvent, EmittedEvent, EmittedMessage, Send } from '@wellspring/contract/messages';
import type { EventRow, LogRow } from '@wellspring/store/collections/events';
import type { EmitterStateRow } from '@wellspring/store/collections/states';
import type { RunCommit } from '@wellspring/store/run-commit';
import { outboxRow } from './outbox-relay.ts';

/** The contribution of one run, or of one record of another service, to a commit. */
export interface Part {
  run_id: string;
  trace_id: string;
  hop: number;
  events: readonly EventRow[];
  logs: LogRow | undefined;
  emitted: readonly Omit<EmittedEvent, 'trace_id'>[];
  sends?: readonly Send[] | undefined;
  delayed?: readonly Omit<DelayedEvent, 'trace_id'>[];
}

/**
 * Runs of one source that ended in the same turn, or during the previous commit, written as one atomic commit: one state,
 * one outbox row, one message.
 */
export interface CommitGroup {
  /** False for another hop or a full group: the part needs a new group. */
  takes(part: Part): boolean;
  /** @param state state after the part */
  add(part: Part, state: EmitterStateRow): void;
  close(now: number): Pick<RunCommit, 'events' | 'logs' | 'outbox'> & { state: EmitterStateRow };
  /** Resolves when the group is durable; `published` when its message is published, too. */
  readonly written: Promise<void>;
  readonly published: Promise<void>;
  settle(written: Promise<void>, published: Promise<void>): void;
}

const MAX_PARTS = 64;
const MAX_BYTES = 1024 * 1024;

export function createCommitGroup(emitterId: string, ownerId: string): CommitGroup {
  const events: EventRow[] = [];
  const logs: LogRow[] = [];
  const emitted: EmittedEvent[] = [];
  const sends: Send[] = [];
  const delayed: DelayedEvent[] = [];
  let first: Part | undefined;
  let state: EmitterStateRow | undefined;
  let parts = 0;
  let bytes = 0;
  const written = Promise.withResolvers<void>();
  const published = Promise.withResolvers<void>();
  // A rejection that nobody awaits is not an error.
  written.promise.catch(() => {});
  published.promise.catch(() => {});

  return {
    written: written.promise,
    published: published.promise,
    takes: ({ hop }) => first === undefined || (first.hop === hop && parts < MAX_PARTS && bytes < MAX_BYTES),
    add(part, after) {
      state = after;
      first ??= part;
      parts += 1;
      events.push(...part.events);
      if (part.logs) logs.push(part.logs);
      for (const event of part.emitted) {
        emitted.push({ ...event, trace_id: part.trace_id });
        bytes += event.payload.length;
      }
      for (const send of part.sends ?? []) {
        sends.push(send);
        bytes += send.request.length;
      }
      for (const event of part.delayed ?? []) delayed.push({ ...event, trace_id: part.trace_id });
    },
    close(now) {
      const message: EmittedMessage = {
        v: 1,
        type: 'emitted',
        run_id: first!.run_id,
        emitter_id: emitterId,
        owner_id: ownerId,
        hop: first!.hop,
        events: emitted,
        ...(sends.length > 0 && { sends }),
        ...(delayed.length > 0 && { delayed }),
      };
      const isEmpty = emitted.length + sends.length + delayed.length === 0;
      return { state: state!, events, logs, outbox: isEmpty ? undefined : outboxRow(message, now) };
    },
    settle(durable, sent) {
      durable.then(written.resolve, written.reject);
      sent.then(published.resolve, published.reject);
    },
  };
}
