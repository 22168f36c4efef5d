import { randomInt } from 'node:crypto';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import type { Metrics } from '@wellspring/core/metrics';
import { type DeliveryRow, deliveries, type WebhookRow } from '@wellspring/store/collections/webhooks';
import type { Store } from '@wellspring/store/port';
import type { WebhookHealth } from './disable.ts';
import type { SigningKeys } from './keys.ts';
import { LEASE_MARGIN_MS, LINE_MS } from './lease.ts';
import { outcomeOf, type Reply } from './outcome.ts';
import type { Post } from './post.ts';
import type { RecentWebhooks } from './recent-webhooks.ts';
import { headersOf } from './request.ts';
import type { Slots } from './slots.ts';

export interface AttemptsDeps {
  store: Store;
  clock: Clock;
  log: Log;
  metrics: Metrics;
  slots: Slots<Held>;
  post: Post;
  keys: SigningKeys;
  health: WebhookHealth;
  recent: RecentWebhooks;
  /** Called when parked deliveries may be able to start. */
  wake: () => void;
}

/** A delivery under a lease of ours. */
export interface Held {
  row: DeliveryRow;
  /** The `due_at` that this process has set: the fence of every write to the row. */
  lease: number;
  bytes: number;
}

interface Sent {
  webhook: WebhookRow;
  startedAt: number;
  reply: Reply;
}

export interface Attempts {
  /**
   * Attempts a delivery as soon as there is a slot, or parks it. To be called once under each lease, by whoever wrote
   * it into the row. Should the row not be written in the end, its lease ends and it is claimed again.
   * @param claimed it was parked before, see Slots
   */
  accept(row: DeliveryRow, lease: number, claimed?: boolean): void;
  /** How many more deliveries to this webhook find a place in memory; the others are to be written as parked. */
  room(webhookId: string): number;
  /** Deliveries to this webhook were written as parked. */
  parked(webhookId: string): void;
  /** Parks what waits in memory for too long. */
  parkOverdue(): void;
  /**
   * Gives back all that waits in memory, for another process to take. Resolves when nothing is under way; whoever
   * accepts something afterwards has to drain again.
   */
  drain(): Promise<void>;
}

/**
 * Attempts to one webhook that were answered while their row does not say so yet: what a crash repeats. With so many,
 * a slot stays taken until the row is written.
 */
const MOST_UNWRITTEN = 56;

export function createAttempts(deps: AttemptsDeps): Attempts {
  const { store, clock, log, slots, health, recent } = deps;
  const rows = store.collection(deliveries);
  const underWay = new Set<Promise<void>>();
  const unwritten = new Map<string, number>();
  const attempted = deps.metrics.counter(
    'wellspring_delivery_attempts_total',
    'Attempts to deliver to webhooks.',
    ['outcome'],
  );
  const duration = deps.metrics.histogram(
    'wellspring_delivery_attempt_seconds',
    'Time from sending to the answer.',
  );
  deps.metrics.gauge('wellspring_delivery_in_flight', 'Attempts under way.', () => slots.taken);

  /** Follows what is done to a delivery; when it fails, the lease ends and the delivery is claimed again. */
  function follow({ row }: Held, work: Promise<unknown>): void {
    const promise = work.then(
      () => {},
      (error: unknown) => log.error({ delivery_id: row.id, error: String(error) }, 'delivery.attempt_failed'),
    );
    underWay.add(promise);
    promise.then(() => underWay.delete(promise));
  }

  const start = (held: Held) => follow(held, attempt(held));

  function release({ row, bytes }: Held): void {
    slots.release(row.webhook_id, bytes);
    for (let next = slots.next(); next; next = slots.next()) start(next);
    if (slots.anyTurn) deps.wake();
  }

  /** Makes the request; undefined: there was nothing to send any more. */
  async function send({ row, lease }: Held): Promise<Sent | undefined> {
    const webhook = await recent.get(row.webhook_id, row.created_at_ms);
    if (!webhook) {
      await rows.remove(row.id);
      return undefined;
    }
    const startedAt = clock.now();
    if (!webhook.active) {
      await rows.patch(
        row.id,
        { status: 'failed', due_at: null, failed_at_ms: startedAt },
        { due_at: lease },
      );
      return undefined;
    }
    // Whoever finds the lease over takes it again.
    if (lease - startedAt < LEASE_MARGIN_MS) return undefined;
    const headers = headersOf(row, deps.keys(webhook, startedAt), startedAt);
    return { webhook, startedAt, reply: await deps.post(webhook.url, headers, row.payload) };
  }

  /** Writes what came of it. */
  async function record({ row, lease }: Held, { webhook, startedAt, reply }: Sent): Promise<void> {
    const outcome = outcomeOf(row, reply, startedAt, clock.now(), randomInt(1_000_000) / 1_000_000);
    // The same turn, so that both are one transaction where the store has them.
    const written = rows.patch(row.id, outcome.fields, { due_at: lease });
    const { verdict } = outcome;
    if (verdict !== 'delivered' || webhook.failing_since !== null) recent.forget(webhook.id);
    const told =
      verdict === 'delivered'
        ? health.succeeded(webhook)
        : verdict === 'gone'
          ? health.gone(webhook)
          : health.failed(webhook);
    await Promise.all([written, told]);
    attempted.inc({ outcome: verdict });
    duration.observe(reply.durationMs / 1000);
    const fields = {
      delivery_id: row.id,
      webhook_id: row.webhook_id,
      emitter_id: row.emitter_id,
      event_id: row.event_id,
      attempt: outcome.fields.attempts,
      outcome: verdict,
      status: reply.status,
      error: reply.error,
      duration_ms: Math.round(reply.durationMs),
    };
    if (verdict === 'delivered') log.debug(fields, 'delivery.attempted');
    else log.info(fields, 'delivery.attempted');
  }

  async function attempt(held: Held): Promise<void> {
    const { webhook_id } = held.row;
    let taken = true;
    const free = () => {
      if (taken) release(held);
      taken = false;
    };
    try {
      const sent = await send(held);
      if (!sent) return;
      const count = unwritten.get(webhook_id) ?? 0;
      unwritten.set(webhook_id, count + 1);
      if (count < MOST_UNWRITTEN) free();
      await record(held, sent).finally(() => {
        const left = unwritten.get(webhook_id)! - 1;
        if (left > 0) unwritten.set(webhook_id, left);
        else unwritten.delete(webhook_id);
      });
    } finally {
      free();
    }
  }

  function parked(webhookId: string): void {
    slots.setParked(webhookId, true);
    deps.wake();
  }

  async function park({ row, lease }: Held): Promise<void> {
    slots.setParked(row.webhook_id, true);
    await rows.patch(row.id, { waiting: row.webhook_id, due_at: null }, { due_at: lease });
    // Again: a claim that found nothing may have ended while this was being written.
    parked(row.webhook_id);
  }

  return {
    accept(row, lease, claimed) {
      const held: Held = { row, lease, bytes: Buffer.byteLength(row.payload) };
      const offer = slots.offer(row.webhook_id, held.bytes, held, clock.now(), claimed);
      if (offer === 'start') start(held);
      else if (offer === 'park') follow(held, park(held));
    },
    room: slots.room,
    parked,
    parkOverdue() {
      for (const held of slots.expire(clock.now() - LINE_MS)) follow(held, park(held));
    },
    async drain() {
      for (const held of slots.expire(Number.POSITIVE_INFINITY)) {
        follow(held, rows.patch(held.row.id, { due_at: clock.now() }, { due_at: held.lease }));
      }
      await Promise.all(underWay);
    },
  };
}
