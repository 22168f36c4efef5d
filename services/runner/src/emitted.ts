import type { EmittedMessage } from '@wellspring/contract/messages';
import { eventsTopic } from '@wellspring/pubsub/port';
import type { Deps } from '@wellspring/runtime/deps';
import { type OutboxRow, outbox } from '@wellspring/store/collections/outbox';

/** While the store is away, rows that were announced wait so long for their removal; the sweep finds them afterwards. */
const TRIES = 20;
const AGAIN_MS = 1_000;
/** What is not removed by then, the sweep of another process finds. */
const CLOSE_MS = 5_000;
/** What is published within this time is removed together. */
const TOGETHER_MS = 50;

/** Announces committed runs to the fan-out. */
export interface Announcer {
  /** Publishes the message of an outbox row, then removes the row. */
  announce(row: OutboxRow): Promise<void>;
  /** The same, of a row that may have been announced before: whoever gets the message looks whether that is so. */
  announceAgain(row: OutboxRow): Promise<void>;
  /** The row of a run that was committed before, when its announcement may have been cut off. */
  pending(runId: string): Promise<OutboxRow | undefined>;
  wake(emitterId: string): void;
  /** Removes what has been published and is still there, if that can be done soon. */
  close(): Promise<void>;
}

export function createAnnouncer({
  store,
  queue,
  pubsub,
  clock,
  log,
}: Pick<Deps, 'store' | 'queue' | 'pubsub' | 'clock' | 'log'>): Announcer {
  const rows = store.collection(outbox);
  let published: string[] = [];
  let removing: Promise<void> | undefined;
  const closing = new AbortController();

  /** One statement for many rows. Nobody waits for it: a row that stays is published once more by the sweep. */
  function removeSoon(id: string): void {
    published.push(id);
    removing ??= (async () => {
      while (published.length > 0) {
        await clock.sleep(TOGETHER_MS, closing.signal);
        const ids = published;
        published = [];
        await removeAll(ids);
      }
      removing = undefined;
    })();
  }

  async function removeAll(ids: readonly string[]): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        await rows.removeWhere({ id: { in: [...ids] } });
        return;
      } catch (error) {
        log.warn({ run_ids: ids, error: String(error) }, 'outbox.remove_failed');
      }
      if (tries === TRIES || closing.signal.aborted) return;
      await clock.sleep(AGAIN_MS, closing.signal);
    }
  }

  async function publish({ id, emitter_id }: OutboxRow, payload: string): Promise<void> {
    await queue.publish('emitted', { key: emitter_id, payload });
    removeSoon(id);
  }

  return {
    announce: (row) => publish(row, row.message),
    announceAgain(row) {
      const message: EmittedMessage = { ...(JSON.parse(row.message) as EmittedMessage), redelivered: true };
      return publish(row, JSON.stringify(message));
    },
    pending: (runId) => rows.get(runId),
    async close() {
      closing.abort();
      const late = new AbortController();
      await Promise.race([removing, clock.sleep(CLOSE_MS, late.signal)]);
      late.abort();
    },
    wake: (emitterId) => pubsub.publish(eventsTopic(emitterId)),
  };
}

export const outboxRow = (message: EmittedMessage, now: number): OutboxRow => ({
  id: message.run_id,
  emitter_id: message.emitter_id,
  created_at_ms: now,
  message: JSON.stringify(message),
});
