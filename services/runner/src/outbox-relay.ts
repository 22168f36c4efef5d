import type { EmittedMessage } from '@wellspring/contract/messages';
import { withTimeout } from '@wellspring/core/with-timeout';
import { eventsTopic } from '@wellspring/pubsub/port';
import type { Deps } from '@wellspring/runtime/deps';
import { byCommit, type OutboxRow, outbox } from '@wellspring/store/collections/outbox';

/** Attempts to remove published rows; the sweep handles the remaining ones. */
const MAX_ATTEMPTS = 20;
const RETRY_DELAY_MS = 1_000;
/** Rows not removed by then are left to the sweep of another process. */
const CLOSE_TIMEOUT_MS = 5_000;

/** Publishes committed events to the fan-out. */
export interface OutboxRelay {
  /** Publishes the message of an outbox row, unless the commit did, and schedules the removal of the row. */
  publish(row: OutboxRow): Promise<void>;
  /**
   * Like `publish`, for a row that may have been published before: flags the message as redelivered. One that this process is
   * publishing or removing is left to that.
   */
  publishRedelivered(row: OutboxRow): Promise<void>;
  /**
   * Publishes, in order, the outbox rows that earlier commits of the emitter have left: a redelivered run may have been
   * committed and not published. Its row has the id of the first run of its commit group.
   */
  republish(emitterId: string): Promise<void>;
  /** Notifies the followers of the emitter's event streams. */
  wake(emitterId: string): void;
  /** Removes the rows published so far, within CLOSE_TIMEOUT_MS. */
  close(): Promise<void>;
}

export function createOutboxRelay({
  store,
  queue,
  pubsub,
  clock,
  log,
}: Pick<Deps, 'store' | 'queue' | 'pubsub' | 'clock' | 'log'>): OutboxRelay {
  const rows = store.collection(outbox);
  const removing = new Set<Promise<void>>();
  /** Ids of rows that this process is publishing or removing. */
  const publishing = new Set<string>();
  const republishing = new Map<string, Promise<void>>();
  const closing = new AbortController();

  /** Not awaited: the sweep republishes a row that stays. */
  function remove(id: string): void {
    const removed = tryToRemove(id).finally(() => {
      removing.delete(removed);
      publishing.delete(id);
    });
    removing.add(removed);
  }

  async function tryToRemove(id: string): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await rows.removeWhere({ id: { in: [id] } });
        return;
      } catch (error) {
        log.warn({ run_id: id, error: String(error) }, 'outbox.remove_failed');
      }
      if (attempt === MAX_ATTEMPTS || closing.signal.aborted) return;
      await clock.sleep(RETRY_DELAY_MS, closing.signal);
    }
  }

  async function send({ id, emitter_id }: OutboxRow, payload: string): Promise<void> {
    publishing.add(id);
    try {
      await queue.publish('emitted', { key: emitter_id, payload });
    } catch (error) {
      publishing.delete(id);
      throw error;
    }
    remove(id);
  }

  async function publishRedelivered(row: OutboxRow): Promise<void> {
    if (publishing.has(row.id)) return;
    const { revision: _, ...message } = JSON.parse(row.message) as EmittedMessage;
    await send(row, JSON.stringify({ ...message, redelivered: true } satisfies EmittedMessage));
  }

  async function republishNow(emitter_id: string): Promise<void> {
    if (store.publishesCommits) return;
    const left = await rows.list({ where: { emitter_id } });
    await Promise.all(left.sort(byCommit).map(publishRedelivered));
  }

  return {
    async publish(row) {
      if (!store.publishesCommits) await send(row, row.message);
    },
    publishRedelivered,
    republish(emitterId) {
      let current = republishing.get(emitterId);
      if (!current) {
        current = republishNow(emitterId).finally(() => republishing.delete(emitterId));
        republishing.set(emitterId, current);
      }
      return current;
    },
    async close() {
      closing.abort();
      await withTimeout(Promise.all(removing), CLOSE_TIMEOUT_MS);
    },
    wake: (emitterId) => pubsub.publish(eventsTopic(emitterId)),
  };
}
