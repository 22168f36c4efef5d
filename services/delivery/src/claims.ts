import { createSleeper } from '@wellspring/core/sleeper';
import { DELIVERIES_DUE } from '@wellspring/pubsub/port';
import type { Deps } from '@wellspring/runtime/deps';
import { findEmitter } from '@wellspring/store/collections/emitters';
import {
  type DeliveryRow,
  deliveries,
  type WebhookRow,
  webhooks,
} from '@wellspring/store/collections/webhooks';
import type { Attempts } from './attempts.ts';
import { ATTEMPT_TIMEOUT_MS, LEASE_MS } from './lease.ts';
import { inactive } from './outcome.ts';
import type { Permit, Permits, Receiver } from './permits.ts';
import { takeOver } from './take-over.ts';

interface ClaimDeps extends Pick<Deps, 'store' | 'pubsub' | 'clock' | 'log' | 'config'> {
  permits: Permits;
  attempts: Attempts;
}

const MAX_CLAIMS = 8;
const PAGE_SIZE = 500;
/** Between two scans: retries that are due one after the other share one. */
const MIN_SCAN_INTERVAL_MS = 50;
/** Polls for rows of other processes, and in case a wake-up was lost. */
const POLL_INTERVAL_MS = 5_000;
/** Pause between two sweeps for rows that another process left behind, and between two pages of one. */
const SWEEP_INTERVAL_MS = 30_000;
const SWEEP_PAUSE_MS = 1_000;
/** A row that another process made due may be visible this much later than its due time. */
const MAX_LATENESS_MS = 5_000;
const RETRY_DELAY_MS = 1_000;

export interface ClaimLoop {
  /** A permit may have become free; with a time: a row is due then. */
  wake(dueAt?: number): void;
  run(signal: AbortSignal): Promise<void>;
}

/**
 * Due rows are the queue of their webhook. Scans each row once when it becomes due, only to know which webhooks have due
 * rows; then claims for one webhook after the other as many rows as it has free permits. A claim is a lease: if this
 * process dies, another one claims the delivery after LEASE_MS.
 */
export function createClaimLoop(deps: ClaimDeps): ClaimLoop {
  const { store, pubsub, clock, log, permits, attempts } = deps;
  const rows = store.collection(deliveries);
  const startedAt = clock.now();
  const claiming = new Set<Promise<void>>();
  /** Embedded: existing leases belong to a process that has ended. */
  let takenOver = deps.config.mode === 'distributed';
  const sleeper = createSleeper(clock);
  /** Rows due before were scanned. */
  let scannedUpTo = 0;
  let nextScanAt = 0;
  /** The same for the sweep, which begins anew from time to time. */
  let sweptUpTo = 0;
  let nextSweepAt = startedAt + SWEEP_INTERVAL_MS;

  function wake(dueAt = Number.POSITIVE_INFINITY): void {
    scannedUpTo = Math.min(scannedUpTo, dueAt);
    nextScanAt = Math.min(nextScanAt, dueAt);
    sleeper.wake();
  }

  /**
   * Marks the webhooks of a page of due rows, by time.
   * @returns the time up to which rows were scanned, and at which the next row is due; 0: there may be further pages
   */
  async function scanPage(from: number): Promise<{ until: number; next: number }> {
    const now = clock.now();
    const byTime = { orderBy: 'due_at', order: 'asc', texts: false } as const;
    const due = await rows.list({ where: { due_at: { gte: from, lte: now } }, limit: PAGE_SIZE, ...byTime });
    for (const { webhook_id, owner_id } of due)
      permits.setDueRows(permits.receiver(webhook_id, owner_id), true);
    const isLast = due.length < PAGE_SIZE;
    const last = due.at(-1)?.due_at ?? from;
    // Rows beyond the page may have the `due_at` of the last one; if all have it, the sweep finds them.
    const until = isLast ? Math.max(from, now + 1) : last > from ? last : last + 1;
    if (!isLast) return { until, next: 0 };
    const [next] = await rows.list({ where: { due_at: { gt: now } }, limit: 1, ...byTime });
    return { until, next: next?.due_at ?? Number.POSITIVE_INFINITY };
  }

  /** Scans the rows that became due since the last call. */
  async function scan(): Promise<void> {
    // After the clock was set back, rows may become due before the last scan.
    let [until, next] = [Math.min(scannedUpTo, clock.now()), 0];
    // A wake-up during the scan sets them back.
    [scannedUpTo, nextScanAt] = [Number.POSITIVE_INFINITY, clock.now() + POLL_INTERVAL_MS];
    try {
      ({ until, next } = await scanPage(until));
      if (next > 0) next = Math.max(next, clock.now() + MIN_SCAN_INTERVAL_MS);
    } finally {
      scannedUpTo = Math.min(scannedUpTo, until);
      nextScanAt = Math.min(nextScanAt, next);
    }
  }

  /** Scans a page of all due rows. */
  async function sweep(): Promise<void> {
    if (clock.now() < nextSweepAt) return;
    const { until, next } = await scanPage(sweptUpTo);
    sweptUpTo = next > 0 ? 0 : until;
    if (next > 0) nextSweepAt = clock.now() + SWEEP_INTERVAL_MS;
    else nextScanAt = Math.min(nextScanAt, clock.now() + SWEEP_PAUSE_MS);
  }

  /** After the clock was set back, scans and sweeps would wait for the length of the step. */
  function boundWaits(): void {
    const now = clock.now();
    nextScanAt = Math.min(nextScanAt, now + POLL_INTERVAL_MS);
    nextSweepAt = Math.min(nextSweepAt, now + SWEEP_INTERVAL_MS);
  }

  async function repeatLater(receiver: Receiver, signal: AbortSignal): Promise<void> {
    await clock.sleep(RETRY_DELAY_MS, signal);
    permits.setDueRows(receiver, true);
    wake();
  }

  /** Claims as many due rows of a receiver as it has permits. */
  async function claim(held: Permit[], signal: AbortSignal): Promise<void> {
    const { receiver } = held[0]!;
    const left = [...held];
    receiver.claiming = true;
    try {
      const lease = clock.now() + LEASE_MS;
      // Before the query: a row that is written meanwhile sets it again.
      permits.setDueRows(receiver, false);
      const claimed = await rows.claim(
        {
          where: { webhook_id: receiver.id, due_at: { lte: clock.now() } },
          orderBy: 'due_at',
          order: 'asc',
          limit: left.length,
          texts: false,
        },
        { due_at: lease },
      );
      if (claimed.length === left.length) permits.setDueRows(receiver, true);
      await start(claimed, left);
    } catch (error) {
      log.error({ webhook_id: receiver.id, error: String(error) }, 'delivery.claim_failed');
      void repeatLater(receiver, signal);
    } finally {
      receiver.claiming = false;
      for (const permit of left) permit.release();
    }
  }

  /** Ends the leases of rows that were not attempted: until they end by themselves, nobody would attempt them. */
  async function giveBack(claimed: readonly DeliveryRow[]): Promise<void> {
    const dueAt = clock.now() + RETRY_DELAY_MS;
    await Promise.allSettled(claimed.map(({ id, due_at }) => rows.patch(id, { due_at: dueAt }, { due_at })));
    wake(dueAt);
  }

  /**
   * Starts the attempts of rows under the lease of this process; takes their permits from `held`. Payloads are read one
   * by one: the next one when there was memory for the last one, or its attempt was put off.
   */
  async function retryAll(
    claimed: readonly DeliveryRow[],
    held: Permit[],
    webhook: WebhookRow | undefined,
  ): Promise<void> {
    const left = [...claimed];
    try {
      for (let next = left[0]; next; next = left[0]) {
        const { id, due_at } = next;
        const row = await rows.get(id);
        // The reads took so long that another process may claim the row during the attempt.
        if (due_at! - clock.now() < ATTEMPT_TIMEOUT_MS) return;
        left.shift();
        if (row?.due_at === due_at) attempts.retry(row, held.pop()!, webhook);
      }
    } catch (error) {
      await giveBack(left);
      throw error;
    }
  }

  /** Claimed rows of a webhook that is not active fail. One at a time: each is read with its payload. */
  async function failAll(claimed: readonly DeliveryRow[]): Promise<void> {
    for (const { id, due_at } of claimed) {
      const row = await rows.get(id);
      if (row) await rows.patch(id, inactive(row, clock.now()), { due_at });
    }
  }

  /** Starts the attempts of claimed rows without texts, of one webhook or workflow. */
  async function start(claimed: readonly DeliveryRow[], held: Permit[]): Promise<void> {
    const [first] = claimed;
    if (!first) return;
    const removeAll = () => rows.removeWhere({ id: { in: claimed.map(({ id }) => id) } });
    if (first.send) {
      const workflow = await findEmitter(store, first.webhook_id);
      if (!workflow?.active) return void (await removeAll());
      return retryAll(claimed, held, undefined);
    }
    const webhook = await store.collection(webhooks).get(first.webhook_id);
    if (!webhook) return void (await removeAll());
    if (!webhook.active) return failAll(claimed);
    permits.receiver(webhook.id, webhook.owner_id, webhook);
    await retryAll(claimed, held, webhook);
  }

  /** Begins claims until nothing more can start. */
  function claimAll(signal: AbortSignal): void {
    while (claiming.size < MAX_CLAIMS) {
      const held = permits.nextClaim();
      if (!held) return;
      const claimed = claim(held, signal).finally(() => {
        claiming.delete(claimed);
        wake();
      });
      claiming.add(claimed);
    }
  }

  return {
    wake,
    async run(signal) {
      const unsubscribe = pubsub.subscribe(DELIVERIES_DUE, () => wake(clock.now() - MAX_LATENESS_MS));
      while (!signal.aborted) {
        try {
          if (!takenOver) {
            // Later attempts wait for their lease to expire.
            await takeOver(rows, startedAt, ({ attempts }) => attempts === 0);
            takenOver = true;
          }
          boundWaits();
          if (clock.now() >= nextScanAt) {
            await scan();
            await sweep();
          }
          claimAll(signal);
          await sleeper.sleep(Math.min(nextScanAt, permits.nextPauseEnd) - clock.now(), signal);
        } catch (error) {
          log.error({ error: String(error) }, 'delivery.claim_failed');
          await clock.sleep(RETRY_DELAY_MS, signal);
        }
      }
      unsubscribe();
      await Promise.all(claiming);
      await attempts.drain();
    },
  };
}
