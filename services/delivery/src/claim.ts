import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { DELIVERIES_DUE, type PubSub } from '@wellspring/pubsub/port';
import { deliveries } from '@wellspring/store/collections/webhooks';
import type { Store } from '@wellspring/store/port';
import type { Attempts, Held } from './attempts.ts';
import { LEASE_MS } from './lease.ts';
import type { Permits } from './permits.ts';

export interface ClaimDeps {
  store: Store;
  pubsub: PubSub;
  clock: Clock;
  log: Log;
  permits: Permits<Held>;
  attempts: Attempts;
  /** No other process uses the store: existing leases belong to a process that has ended. */
  singleProcess: boolean;
}

const MAX_CLAIM = 64;
const PAGE_SIZE = 256;
/** Polls for due deliveries in case a wake-up was lost. */
const POLL_INTERVAL_MS = 1_000;
/** Polls for parked deliveries that another process left behind. */
const DISCOVER_INTERVAL_MS = 30_000;
const RETRY_DELAY_MS = 1_000;

export interface ClaimLoop {
  /** A delivery may have become due, or a permit free. */
  wake(): void;
  run(signal: AbortSignal): Promise<void>;
}

/**
 * Claims due deliveries, and parked ones as soon as their webhook has free permits, and passes them to `attempts`. A
 * claim is a lease: if this process dies, another one claims the delivery after LEASE_MS.
 */
export function createClaimLoop(deps: ClaimDeps): ClaimLoop {
  const { pubsub, clock, log, permits, attempts } = deps;
  const rows = deps.store.collection(deliveries);
  const startedAt = clock.now();
  let takenOver = !deps.singleProcess;
  let woken = false;
  let endSleep = () => {};

  function wake(): void {
    woken = true;
    endSleep();
  }

  /** Claims parked deliveries of the webhook whose turn it is. */
  async function claimParked(): Promise<boolean> {
    const turn = permits.turn();
    if (!turn) return false;
    permits.setParked(turn.webhookId, false);
    const lease = clock.now() + LEASE_MS;
    const claimed = await rows.claim(
      { where: { waiting: turn.webhookId }, orderBy: 'id', order: 'asc', limit: turn.count },
      { waiting: null, due_at: lease },
    );
    if (claimed.length === turn.count) permits.setParked(turn.webhookId, true);
    for (const row of claimed) attempts.accept(row, lease, true);
    return true;
  }

  async function claimDue(): Promise<boolean> {
    const now = clock.now();
    if ((await rows.count({ due_at: { lte: now } }, 1)) === 0) return false;
    const lease = now + LEASE_MS;
    const claimed = await rows.claim(
      { where: { due_at: { lte: now } }, orderBy: 'due_at', order: 'asc', limit: MAX_CLAIM },
      { due_at: lease },
    );
    for (const row of claimed) attempts.accept(row, lease);
    return claimed.length > 0;
  }

  /** Makes due the first attempts leased by the previous process. Later attempts wait for their lease to expire. */
  async function takeOver(): Promise<void> {
    // Leases of this process end later.
    const lt = startedAt + LEASE_MS;
    for (let gt = startedAt; ; ) {
      const page = await rows.list({
        where: { due_at: { gt, lt } },
        orderBy: 'due_at',
        order: 'asc',
        limit: PAGE_SIZE,
      });
      const held = page.filter((row) => row.attempts === 0);
      await Promise.all(held.map(({ id, due_at }) => rows.patch(id, { due_at: startedAt }, { due_at })));
      if (page.length < PAGE_SIZE) return;
      // Further rows may have the `due_at` of the last one; skip it if all rows of the page have to wait.
      gt = page.at(-1)!.due_at! - (held.length > 0 ? 1 : 0);
    }
  }

  /** Finds the webhooks with parked deliveries, one query for each. */
  async function discover(): Promise<void> {
    for (let after = ''; ; ) {
      const [row] = await rows.list({
        where: { waiting: { gt: after } },
        orderBy: 'waiting',
        order: 'asc',
        limit: 1,
      });
      if (!row?.waiting) return;
      permits.setParked(row.waiting, true);
      after = row.waiting;
    }
  }

  async function sleep(signal: AbortSignal): Promise<void> {
    const [next] = await rows.list({
      where: { due_at: { gt: 0 } },
      orderBy: 'due_at',
      order: 'asc',
      limit: 1,
    });
    const wait = Math.min(
      POLL_INTERVAL_MS,
      Math.max(1, (next?.due_at ?? Number.POSITIVE_INFINITY) - clock.now()),
    );
    if (woken) return;
    const ended = new AbortController();
    endSleep = () => ended.abort();
    await clock.sleep(wait, AbortSignal.any([signal, ended.signal]));
    endSleep = () => {};
  }

  return {
    wake,
    async run(signal) {
      const unsubscribe = pubsub.subscribe(DELIVERIES_DUE, wake);
      let discoverAt = 0;
      try {
        while (!signal.aborted) {
          try {
            woken = false;
            attempts.parkOverdue();
            if (!takenOver) {
              await takeOver();
              takenOver = true;
            }
            if (clock.now() >= discoverAt) {
              await discover();
              discoverAt = clock.now() + DISCOVER_INTERVAL_MS;
            }
            const parked = await claimParked();
            const due = await claimDue();
            if (!parked && !due) await sleep(signal);
          } catch (error) {
            log.error({ error: String(error) }, 'delivery.claim_failed');
            await clock.sleep(RETRY_DELAY_MS, signal);
          }
        }
      } finally {
        unsubscribe();
      }
      await attempts.drain();
    },
  };
}
