import type { EmittedMessage } from '@wellspring/contract/messages';
import { createFairPermits, withPermit } from '@wellspring/core/fair-permits';
import { withTimeout } from '@wellspring/core/with-timeout';
import { eventsTopic } from '@wellspring/pubsub/port';
import type { Deps } from '@wellspring/runtime/deps';
import { byCommit, type OutboxRow, outbox } from '@wellspring/store/collections/outbox';

/** Attempts to remove published rows; the sweep handles the remaining ones. */
const MAX_ATTEMPTS = 20;
const RETRY_DELAY_MS = 1_000;
/** Rows not removed by then are left to the sweep of another process. */
const CLOSE_TIMEOUT_MS = 5_000;
/** Stored rows that are read at a time, before their size is known. */
const READS = 4;
/** Their share of the memory, as if it were an owner. */
const OWNER = 'outbox';

/** Publishes committed events to the fan-out. */
export interface OutboxRelay {
  /** Publishes the message of an outbox row, unless the commit did, and schedules the removal of the row. */
  publish(row: OutboxRow): Promise<void>;
  /**
   * Like `publish`, for a stored row that may have been published before: reads it when there is memory for it, and flags
   * the message as redelivered. One that this process is publishing or removing is left to that.
   * @returns whether it was published
   */
  publishStored(row: Pick<OutboxRow, 'id'>): Promise<boolean>;
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
  memory,
  clock,
  log,
}: Pick<Deps, 'store' | 'queue' | 'pubsub' | 'memory' | 'clock' | 'log'>): OutboxRelay {
  const rows = store.collection(outbox);
  const reads = createFairPermits({ total: READS });
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

  /** @returns undefined: another process has published it */
  async function read(id: string): Promise<{ row: OutboxRow; free: () => void } | undefined> {
    const row = await rows.get(id);
    return row && { row, free: await memory.effects.take(row.message.length, OWNER) };
  }

  async function publishStored({ id }: Pick<OutboxRow, 'id'>): Promise<boolean> {
    if (publishing.has(id)) return false;
    publishing.add(id);
    let held: Awaited<ReturnType<typeof read>>;
    let sent = false;
    try {
      held = await withPermit(reads, id, () => read(id));
      if (!held) return false;
      const { revision: _, ...message } = JSON.parse(held.row.message) as EmittedMessage;
      await send(held.row, JSON.stringify({ ...message, redelivered: true } satisfies EmittedMessage));
      sent = true;
      return true;
    } finally {
      if (!sent) publishing.delete(id);
      held?.free();
    }
  }

  async function republishNow(emitter_id: string): Promise<void> {
    if (store.publishesCommits) return;
    const left = await rows.list({ where: { emitter_id }, texts: false });
    for (const row of left.sort(byCommit)) await publishStored(row);
  }

  return {
    async publish(row) {
      if (!store.publishesCommits) await send(row, row.message);
    },
    publishStored,
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
