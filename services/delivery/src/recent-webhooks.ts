import type { Clock } from '@wellspring/core/clock';
import { createLru } from '@wellspring/core/lru';
import { type WebhookRow, webhooks } from '@wellspring/store/collections/webhooks';
import type { Store } from '@wellspring/store/port';

/** Cache of webhooks for a second: most attempts follow the fan-out that read the webhook. */
export interface RecentWebhooks {
  /** @param at epoch ms, not after the row was read */
  put(row: WebhookRow, at: number): void;
  /**
   * The row, at most a second old and not older than `since` by the clock of this process: a delivery sees every change
   * made before its creation.
   */
  get(id: string, since: number): Promise<WebhookRow | undefined>;
  /** To be called when this process changes the row. */
  forget(id: string): void;
}

const MAX_AGE_MS = 1_000;
const CACHE_SIZE = 10_000;

export function createRecentWebhooks({ store, clock }: { store: Store; clock: Clock }): RecentWebhooks {
  const rows = store.collection(webhooks);
  const recent = createLru<{ row: WebhookRow; at: number }>(CACHE_SIZE);
  return {
    put(row, at) {
      if ((recent.get(row.id)?.at ?? 0) > at) return;
      recent.set(row.id, { row, at });
    },
    async get(id, since) {
      const found = recent.get(id);
      const age = found ? clock.now() - found.at : MAX_AGE_MS;
      // A negative age: the clock was put back.
      if (found && found.at >= since && age >= 0 && age < MAX_AGE_MS) return found.row;
      recent.delete(id);
      return rows.get(id);
    },
    forget: (id) => void recent.delete(id),
  };
}
