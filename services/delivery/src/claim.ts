import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { DELIVERIES_DUE, type PubSub } from '@wellspring/pubsub/port';
import { deliveries } from '@wellspring/store/collections/webhooks';
import type { Store } from '@wellspring/store/port';
import type { Attempts, Held } from './attempts.ts';
import { LEASE_MS } from './lease.ts';
import type { Slots } from './slots.ts';

export interface ClaimDeps {
  store: Store;
  pubsub: PubSub;
  clock: Clock;
  log: Log;
  slots: Slots<Held>;
  attempts: Attempts;
  /** Nobody else uses the store: what is leased when the loop is made is held by a process that is gone. */
  alone: boolean;
}

const CLAIM = 64;
/** Leases of a process that is gone, looked at together. */
const PAGE = 256;
/** The longest sleep: also finds what was made due while the wake-up was lost. */
const LOOK_MS = 1_000;
/** How often waiting lines are looked for that another process left behind. */
const DISCOVER_MS = 30_000;
const AFTER_FAILURE_MS = 1_000;

export interface ClaimLoop {
  /** Something may have become due, or a slot free. */
  wake(): void;
  run(signal: AbortSignal): Promise<void>;
}

/**
 * Takes deliveries that are due, and those that are parked as soon as their webhook has free slots, and hands them
 * to attempts. What is taken is leased: when this process dies, somebody takes it again after LEASE_MS.
 */
export function createClaimLoop(deps: ClaimDeps): ClaimLoop {
  const { pubsub, clock, log, slots, attempts } = deps;
  const rows = deps.store.collection(deliveries);
  const madeAt = clock.now();
  let takenOver = !deps.alone;
  let woken = false;
  let endSleep = () => {};

  function wake(): void {
    woken = true;
    endSleep();
  }

  /** Starts parked deliveries of the webhook whose turn it is. */
  async function takeParked(): Promise<boolean> {
    const turn = slots.turn();
    if (!turn) return false;
    slots.setParked(turn.webhookId, false);
    const lease = clock.now() + LEASE_MS;
    const taken = await rows.claim(
      { where: { waiting: turn.webhookId }, orderBy: 'id', order: 'asc', limit: turn.count },
      { waiting: null, due_at: lease },
    );
    if (taken.length === turn.count) slots.setParked(turn.webhookId, true);
    for (const row of taken) attempts.accept(row, lease, true);
    return true;
  }

  async function takeDue(): Promise<boolean> {
    const now = clock.now();
    if ((await rows.count({ due_at: { lte: now } }, 1)) === 0) return false;
    const lease = now + LEASE_MS;
    const taken = await rows.claim(
      { where: { due_at: { lte: now } }, orderBy: 'due_at', order: 'asc', limit: CLAIM },
      { due_at: lease },
    );
    for (const row of taken) attempts.accept(row, lease);
    return taken.length > 0;
  }

  /** Makes due what the process before held for a first attempt. A later attempt waits until its lease is over. */
  async function takeOver(): Promise<void> {
    // Leases of this process end later.
    const lt = madeAt + LEASE_MS;
    for (let gt = madeAt; ; ) {
      const page = await rows.list({
        where: { due_at: { gt, lt } },
        orderBy: 'due_at',
        order: 'asc',
        limit: PAGE,
      });
      const held = page.filter(({ attempts: made }) => made === 0);
      await Promise.all(held.map(({ id, due_at }) => rows.patch(id, { due_at: madeAt }, { due_at })));
      if (page.length < PAGE) return;
      // Further ones may have the same time as the last, unless all that are left have to wait.
      gt = page.at(-1)!.due_at! - (held.length > 0 ? 1 : 0);
    }
  }

  /** Finds the waiting lines in the store, one look for each webhook that has one. */
  async function discover(): Promise<void> {
    for (let after = ''; ; ) {
      const [row] = await rows.list({
        where: { waiting: { gt: after } },
        orderBy: 'waiting',
        order: 'asc',
        limit: 1,
      });
      if (!row?.waiting) return;
      slots.setParked(row.waiting, true);
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
    const wait = Math.min(LOOK_MS, Math.max(1, (next?.due_at ?? Number.POSITIVE_INFINITY) - clock.now()));
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
              discoverAt = clock.now() + DISCOVER_MS;
            }
            const parked = await takeParked();
            const due = await takeDue();
            if (!parked && !due) await sleep(signal);
          } catch (error) {
            log.error({ error: String(error) }, 'delivery.claim_failed');
            await clock.sleep(AFTER_FAILURE_MS, signal);
          }
        }
      } finally {
        unsubscribe();
      }
      await attempts.drain();
    },
  };
}
