import type { Clock } from '@wellspring/core/clock';
import { type WebhookRow, webhooks } from '@wellspring/store/collections/webhooks';
import type { Store } from '@wellspring/store/port';

/** Rows of webhooks that were just read: most attempts follow the read of their fan-out within moments. */
export interface RecentWebhooks {
  /** @param at epoch ms, not after the row was read */
  put(row: WebhookRow, at: number): void;
  /**
   * The row as it was less than a second ago, and not before `since` by the clock of this process: what was changed
   * before a delivery was made holds for it.
   */
  get(id: string, since: number): Promise<WebhookRow | undefined>;
  /** It was changed here. */
  forget(id: string): void;
}

const RECENT_MS = 1_000;
const MOST = 10_000;

export function createRecentWebhooks({ store, clock }: { store: Store; clock: Clock }): RecentWebhooks {
  const rows = store.collection(webhooks);
  const recent = new Map<string, { row: WebhookRow; at: number }>();
  return {
    put(row, at) {
      if ((recent.get(row.id)?.at ?? 0) > at) return;
      if (recent.size >= MOST) recent.clear();
      recent.set(row.id, { row, at });
    },
    async get(id, since) {
      const found = recent.get(id);
      const age = found ? clock.now() - found.at : RECENT_MS;
      // A negative age: the clock was put back.
      if (found && found.at >= since && age >= 0 && age < RECENT_MS) return found.row;
      recent.delete(id);
      return rows.get(id);
    },
    forget: (id) => void recent.delete(id),
  };
}
