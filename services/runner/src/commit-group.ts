import type { DelayedEvent, EmittedEvent, EmittedMessage, Send } from '@wellspring/contract/messages';
import { joinInPieces } from '@wellspring/core/in-pieces';
import type { LogRow } from '@wellspring/store/collections/events';
import type { OutboxRow } from '@wellspring/store/collections/outbox';
import { newestRevision } from '@wellspring/store/collections/revisions';
import type { EmitterStateRow } from '@wellspring/store/collections/states';
import type { EventRows, RunCommit } from '@wellspring/store/run-commit';

/** The contribution of one run, or of one record of another service, to a commit. */
export interface Part {
  run_id: string;
  trace_id: string;
  hop: number;
  /** See EmittedMessage. */
  revision?: number | undefined;
  events: EventRows;
  /** `records`: the JSON texts of the log records. Like `emitted`, they may be iterated once. */
  logs: Omit<LogRow, 'records'> & { records: Iterable<string> };
  emitted: Iterable<Omit<EmittedEvent, 'trace_id'>>;
  /** About the characters of `emitted`. */
  bytes: number;
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
  /** Makes the log rows and the message in pieces: other work gets its turns between them. */
  close(now: number): Promise<Pick<RunCommit, 'events' | 'logs' | 'outbox'> & { state: EmitterStateRow }>;
  /** Resolves when the group is durable; `published` when its message is published, too. */
  readonly written: Promise<void>;
  readonly published: Promise<void>;
  settle(written: Promise<void>, published: Promise<void>): void;
}

const MAX_PARTS = 64;
const MAX_BYTES = 1024 * 1024;

export function createCommitGroup(emitterId: string, ownerId: string): CommitGroup {
  const parts: Part[] = [];
  let state: EmitterStateRow | undefined;
  let bytes = 0;
  const written = Promise.withResolvers<void>();
  const published = Promise.withResolvers<void>();
  // A rejection that nobody awaits is not an error.
  written.promise.catch(() => {});
  published.promise.catch(() => {});

  return {
    written: written.promise,
    published: published.promise,
    takes: ({ hop }) =>
      parts.length === 0 || (parts[0]!.hop === hop && parts.length < MAX_PARTS && bytes < MAX_BYTES),
    add(part, after) {
      state = after;
      parts.push(part);
      bytes += part.bytes;
      for (const { request } of part.sends ?? []) bytes += request.length;
    },
    async close(now) {
      const { run_id, hop } = parts[0]!;
      const logs: LogRow[] = [];
      const sends: Send[] = [];
      const delayed: DelayedEvent[] = [];
      for (const part of parts) {
        const { trace_id } = part;
        logs.push({ ...part.logs, records: `[${await joinInPieces(part.logs.records)}]` });
        sends.push(...(part.sends ?? []));
        for (const event of part.delayed ?? []) delayed.push({ ...event, trace_id });
      }
      const events = joinedRows(parts.map((part) => part.events));
      const emitted = await joinInPieces(emittedTexts(parts));
      const revision = newestRevision(parts);
      if (emitted === '' && sends.length + delayed.length === 0) return { state: state!, events, logs };
      const message: Omit<EmittedMessage, 'events'> = {
        v: 1,
        type: 'emitted',
        run_id,
        emitter_id: emitterId,
        owner_id: ownerId,
        hop,
        ...(revision !== undefined && { revision }),
        ...(sends.length > 0 && { sends }),
        ...(delayed.length > 0 && { delayed }),
      };
      const text = `${JSON.stringify(message).slice(0, -1)},"events":[${emitted}]}`;
      const outbox: OutboxRow = { id: run_id, emitter_id: emitterId, created_at_ms: now, message: text };
      return { state: state!, events, logs, outbox };
    },
    settle(durable, sent) {
      durable.then(written.resolve, written.reject);
      sent.then(published.resolve, published.reject);
    },
  };
}

const joinedRows = (lists: readonly EventRows[]): EventRows => ({
  length: lists.reduce((sum, { length }) => sum + length, 0),
  *[Symbol.iterator]() {
    for (const list of lists) yield* list;
  },
});

/** JSON texts of the emitted events. */
function* emittedTexts(parts: readonly Part[]): Generator<string> {
  for (const { emitted, trace_id } of parts) {
    for (const event of emitted) yield JSON.stringify({ ...event, trace_id } satisfies EmittedEvent);
  }
}
