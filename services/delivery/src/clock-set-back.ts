import { RETRY_TABLE, retryDelay } from '@wellspring/core/retry-delay';
import type { Deps } from '@wellspring/runtime/deps';
import type { BackgroundWorker } from '@wellspring/runtime/service';
import { attemptsOf, type DeliveryRow, deliveries } from '@wellspring/store/collections/webhooks';
import { LEASE_MS } from './lease.ts';

const POLL_INTERVAL_MS = 5_000;
/** Tolerated difference between the clocks of processes. */
const MAX_CLOCK_SKEW_MS = 5_000;
const PAGE_SIZE = 200;
/** Between two pages: other queries go on. */
const PAGE_PAUSE_MS = 100;

/**
 * After the clock was put back, also while no process ran: retries that were planned before follow the new time, after
 * the same wait. At the old time they would wait for the length of the step, which may be days.
 */
export function clockSetBackWorker(
  { store, clock, log }: Pick<Deps, 'store' | 'clock' | 'log'>,
  wake: (dueAt: number) => void,
): BackgroundWorker {
  const rows = store.collection(deliveries);
  /** Time of the last look; a clock that shows less was put back. */
  let seen = Number.POSITIVE_INFINITY;

  /** @returns whether the row was planned anew */
  async function bringForward({ id, due_at }: DeliveryRow, now: number): Promise<boolean> {
    const row = await rows.get(id);
    if (!row || row.due_at !== due_at || due_at === null) return false;
    const plannedAt = Math.max(row.created_at * 1000, attemptsOf(row).at(-1)?.at ?? 0);
    // Otherwise the receiver has asked for a long wait.
    if (plannedAt <= now + MAX_CLOCK_SKEW_MS) return false;
    const dueAt = now + (due_at - plannedAt);
    const isMoved = await rows.patch(id, { due_at: dueAt }, { due_at });
    if (isMoved) wake(dueAt);
    return isMoved;
  }

  async function bringAllForward(now: number, signal: AbortSignal): Promise<void> {
    let count = 0;
    for (let gt = now + MAX_CLOCK_SKEW_MS; !signal.aborted; ) {
      const byTime = { orderBy: 'due_at', order: 'asc', limit: PAGE_SIZE, texts: false } as const;
      const page = await rows.list({ where: { due_at: { gt } }, ...byTime });
      let moved = 0;
      for (const row of page)
        if (row.due_at! > now + longestWait(row) && (await bringForward(row, now))) moved += 1;
      count += moved;
      if (page.length < PAGE_SIZE) break;
      // Further rows may have the `due_at` of the last one; skip them if no row of the page was moved.
      gt = page.at(-1)!.due_at! - (moved > 0 ? 1 : 0);
      await clock.sleep(PAGE_PAUSE_MS, signal);
    }
    if (count > 0) log.warn({ count }, 'delivery.brought_forward');
  }

  return {
    name: 'clock-set-back',
    async run(signal) {
      while (!signal.aborted) {
        const now = clock.now();
        const before = seen;
        seen = now;
        try {
          if (now < before - MAX_CLOCK_SKEW_MS) await bringAllForward(now, signal);
        } catch (error) {
          seen = Number.POSITIVE_INFINITY;
          log.error({ error: String(error) }, 'delivery.claim_failed');
        }
        await clock.sleep(POLL_INTERVAL_MS, signal);
      }
    },
  };
}

/** Of a pending row, if the receiver has not asked for a longer one; it may be under a lease. */
const longestWait = ({ attempts }: DeliveryRow) =>
  (retryDelay(Math.min(attempts, RETRY_TABLE.length - 1), 1) ?? 0) + LEASE_MS + MAX_CLOCK_SKEW_MS;
