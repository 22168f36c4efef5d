import type { EmittedMessage } from '@wellspring/contract/messages';
import { eventsTopic } from '@wellspring/pubsub/port';
import type { Deps } from '@wellspring/runtime/deps';
import { type OutboxRow, outbox } from '@wellspring/store/collections/outbox';

/** Announces committed runs to the fan-out. */
export interface Announcer {
  /** Publishes the message of an outbox row, then removes the row. Repeating it is harmless: fan-out is idempotent. */
  announce(row: OutboxRow): Promise<void>;
  /** The row of a run that was committed before, when its announcement may have been cut off. */
  pending(runId: string): Promise<OutboxRow | undefined>;
  wake(emitterId: string): void;
}

export function createAnnouncer({
  store,
  queue,
  pubsub,
  log,
}: Pick<Deps, 'store' | 'queue' | 'pubsub' | 'log'>): Announcer {
  const rows = store.collection(outbox);
  let published: string[] = [];

  /** One statement for all rows of a turn. Nobody waits for it: a row that stays is published once more by the sweep. */
  function removeSoon(id: string): void {
    if (published.push(id) > 1) return;
    setImmediate(() => {
      const ids = published;
      published = [];
      rows
        .removeWhere({ id: { in: ids } })
        .catch((error: unknown) => log.warn({ run_ids: ids, error: String(error) }, 'outbox.remove_failed'));
    });
  }

  return {
    async announce(row) {
      await queue.publish('emitted', { key: row.emitter_id, payload: row.message });
      removeSoon(row.id);
    },
    pending: (runId) => rows.get(runId),
    wake: (emitterId) => pubsub.publish(eventsTopic(emitterId)),
  };
}

export const outboxRow = (message: EmittedMessage, now: number): OutboxRow => ({
  id: message.run_id,
  emitter_id: message.emitter_id,
  created_at_ms: now,
  message: JSON.stringify(message),
});
