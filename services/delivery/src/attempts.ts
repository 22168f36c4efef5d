import { randomInt } from 'node:crypto';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import type { Metrics } from '@wellspring/core/metrics';
import { type DeliveryRow, deliveries, type WebhookRow } from '@wellspring/store/collections/webhooks';
import type { Store } from '@wellspring/store/port';
import type { WebhookHealth } from './disable.ts';
import type { SigningKeys } from './keys.ts';
import { LEASE_MARGIN_MS, MAX_QUEUED_MS } from './lease.ts';
import { outcomeOf, type Reply } from './outcome.ts';
import type { Permits } from './permits.ts';
import type { Post } from './post.ts';
import type { RecentWebhooks } from './recent-webhooks.ts';
import { headersOf } from './request.ts';
import type { Sender } from './sends/sends.ts';

export interface AttemptsDeps {
  store: Store;
  clock: Clock;
  log: Log;
  metrics: Metrics;
  permits: Permits<Held>;
  post: Post;
  keys: SigningKeys;
  health: WebhookHealth;
  /** Of rows that are requests of workflows. */
  sender: Sender;
  recent: RecentWebhooks;
  /** Called when parked deliveries may start. */
  wake: () => void;
}

/** A delivery leased by this process. */
export interface Held {
  row: DeliveryRow;
  /** The `due_at` set by this process: condition of every write to the row. */
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
   * Attempts a delivery as soon as it has a permit, or parks it. Called once per lease. If the row cannot be written
   * afterwards, the lease expires and another claim takes the delivery.
   * @param claimed see Permits.offer
   */
  accept(row: DeliveryRow, lease: number, claimed?: boolean): void;
  /** Number of further deliveries to this webhook that may wait in memory; the rest must be written as parked. */
  room(webhookId: string): number;
  /** Deliveries to this webhook were written as parked. */
  parked(webhookId: string): void;
  /** Parks deliveries that have waited in memory for too long. */
  parkOverdue(): void;
  /**
   * Releases the leases of all waiting deliveries. Resolves when no attempt is in progress; must be repeated after a
   * later `accept`.
   */
  drain(): Promise<void>;
}

/**
 * Answered attempts to one webhook whose row is not written yet; a crash repeats them. Beyond, a permit is held until
 * the row is written.
 */
const MAX_UNWRITTEN = 56;

export function createAttempts(deps: AttemptsDeps): Attempts {
  const { store, clock, log, permits, health, recent } = deps;
  const rows = store.collection(deliveries);
  const inProgress = new Set<Promise<void>>();
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
  deps.metrics.gauge('wellspring_delivery_in_flight', 'Attempts in progress.', () => permits.taken);

  /** Logs a failure; the lease then expires and another claim takes the delivery. */
  function track({ row }: Held, work: Promise<unknown>): void {
    const promise = work.then(
      () => {},
      (error: unknown) => log.error({ delivery_id: row.id, error: String(error) }, 'delivery.attempt_failed'),
    );
    inProgress.add(promise);
    promise.then(() => inProgress.delete(promise));
  }

  const start = (held: Held) => track(held, attempt(held));

  function release({ row, bytes }: Held): void {
    permits.release(row.webhook_id, bytes);
    for (let next = permits.next(); next; next = permits.next()) start(next);
    if (permits.hasTurn) deps.wake();
  }

  /** Sends the request; undefined if the delivery is obsolete or its lease too short. */
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
    // Left to expire, so that another claim takes the delivery.
    if (lease - startedAt < LEASE_MARGIN_MS) return undefined;
    const headers = headersOf(row, deps.keys(webhook, startedAt), startedAt);
    return { webhook, startedAt, reply: await deps.post({ url: webhook.url, headers, body: row.payload }) };
  }

  /** Writes the outcome. */
  async function record({ row, lease }: Held, { webhook, startedAt, reply }: Sent): Promise<void> {
    const outcome = outcomeOf(row, reply, startedAt, clock.now(), randomInt(1_000_000) / 1_000_000);
    // In one turn, hence one transaction where the store supports it.
    const written = rows.patch(row.id, outcome.fields, { due_at: lease });
    const { verdict } = outcome;
    if (verdict !== 'delivered' || webhook.failing_since !== null) recent.forget(webhook.id);
    const healthUpdated =
      verdict === 'delivered'
        ? health.succeeded(webhook)
        : verdict === 'gone'
          ? health.gone(webhook)
          : health.failed(webhook);
    await Promise.all([written, healthUpdated]);
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

  /** Makes the request of a workflow and writes its outcome. */
  async function makeSend({ row, lease }: Held): Promise<void> {
    const now = clock.now();
    if (lease - now < LEASE_MARGIN_MS) return;
    await deps.sender(row, now, (fields) => rows.patch(row.id, fields, { due_at: lease }));
  }

  async function attempt(held: Held): Promise<void> {
    const { webhook_id } = held.row;
    let taken = true;
    const free = () => {
      if (taken) release(held);
      taken = false;
    };
    try {
      if (held.row.send) return await makeSend(held);
      const sent = await send(held);
      if (!sent) return;
      const count = unwritten.get(webhook_id) ?? 0;
      unwritten.set(webhook_id, count + 1);
      if (count < MAX_UNWRITTEN) free();
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
    permits.setParked(webhookId, true);
    deps.wake();
  }

  async function park({ row, lease }: Held): Promise<void> {
    permits.setParked(row.webhook_id, true);
    await rows.patch(row.id, { waiting: row.webhook_id, due_at: null }, { due_at: lease });
    // Repeated: a claim that found nothing may have reset it during the write.
    parked(row.webhook_id);
  }

  return {
    accept(row, lease, claimed) {
      const held: Held = { row, lease, bytes: Buffer.byteLength(row.payload) };
      const offer = permits.offer(row.webhook_id, held.bytes, held, clock.now(), claimed);
      if (offer === 'start') start(held);
      else if (offer === 'park') track(held, park(held));
    },
    room: permits.room,
    parked,
    parkOverdue() {
      for (const held of permits.expire(clock.now() - MAX_QUEUED_MS)) track(held, park(held));
    },
    async drain() {
      for (const held of permits.expire(Number.POSITIVE_INFINITY)) {
        track(held, rows.patch(held.row.id, { due_at: clock.now() }, { due_at: held.lease }));
      }
      await Promise.all(inProgress);
    },
  };
}
