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
/** Owner of the memory for rows of the sweep: at most half, so that sources whose runs wait find some. */
const SWEEP = 'outbox';

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
  /** Publications of stored rows. */
  const storing = new Map<string, Promise<boolean>>();
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
  async function read(id: string, owner: string): Promise<{ row: OutboxRow; free: () => void } | undefined> {
    const row = await withPermit(reads, id, () => rows.get(id));
    if (!row) return undefined;
    const { length } = row.message;
    const free = memory.effects.tryTake(length, owner);
    return free ? { row, free } : reread(id, length, owner);
  }

  /** Waits for memory without holding the text. */
  async function reread(id: string, length: number, owner: string) {
    const free = await memory.effects.take(length, owner, closing.signal);
    try {
      const row = await rows.get(id);
      if (row) return { row, free };
    } catch (error) {
      free();
      throw error;
    }
    free();
    return undefined;
  }

  async function publishNow(id: string, owner: string): Promise<boolean> {
    const held = await read(id, owner);
    if (!held) return false;
    try {
      const { revision: _, ...message } = JSON.parse(held.row.message) as EmittedMessage;
      await send(held.row, JSON.stringify({ ...message, redelivered: true } satisfies EmittedMessage));
      return true;
    } finally {
      held.free();
    }
  }

  /** Of two callers the second one waits for the first, and fails with it: it goes on to later rows of the emitter. */
  async function publishStored(id: string, owner: string): Promise<boolean> {
    const current = storing.get(id);
    if (current) return current.then(() => false);
    if (publishing.has(id)) return false;
    const published = publishNow(id, owner).finally(() => storing.delete(id));
    storing.set(id, published);
    return published;
  }

  return {
    async publish(row) {
      if (!store.publishesCommits) await send(row, row.message);
    },
    publishStored: ({ id }) => publishStored(id, SWEEP),
    async republish(emitter_id) {
      if (store.publishesCommits) return;
      const left = await rows.list({ where: { emitter_id }, texts: false });
      for (const { id } of left.sort(byCommit)) await publishStored(id, emitter_id);
    },
    async close() {
      closing.abort();
      await withTimeout(Promise.all(removing), CLOSE_TIMEOUT_MS);
    },
    wake: (emitterId) => pubsub.publish(eventsTopic(emitterId)),
  };
}
