import { randomInt } from 'node:crypto';
import { Unavailable } from '@wellspring/core/unavailable';
import type { Deps } from '@wellspring/runtime/deps';
import { findEmitter } from '@wellspring/store/collections/emitters';
import { type DeliveryRow, deliveries, type WebhookRow } from '@wellspring/store/collections/webhooks';
import type { FirstAttemptTimeout } from './first-attempt-timeout.ts';
import type { WebhookHealth } from './health.ts';
import type { SigningKeys } from './keys.ts';
import { LEASE_MS } from './lease.ts';
import { ENDED, outcomeOf } from './outcome.ts';
import type { Permit, Permits, Receiver } from './permits.ts';
import type { Post } from './post.ts';
import { createReport } from './report.ts';
import { bodyOf, headersOf } from './request.ts';
import { requestBytes, type Sender } from './sends/sends.ts';

interface AttemptsDeps extends Pick<Deps, 'store' | 'clock' | 'log' | 'metrics' | 'memory'> {
  permits: Permits;
  timeout: FirstAttemptTimeout;
  post: Post;
  keys: SigningKeys;
  health: WebhookHealth;
  /** Of rows that are requests of workflows. */
  sender: Sender;
  /** Called when a row waits for a permit; with a time: it is due then. */
  wake: (dueAt?: number) => void;
}

/** A delivery that this process attempts: not stored yet, or a row under its lease. */
interface Delivery {
  row: DeliveryRow;
  /** The `due_at` set by this process: condition of every write to the row; undefined if it is not stored. */
  lease: number | undefined;
  /** Resolves when the row is stored for the first time. */
  stored: PromiseWithResolvers<void>;
  /** The last write. */
  saved: Promise<unknown>;
  /** Throws when another process may have the message of a first attempt. */
  assertHeld: () => void;
}

/** Checks of a first attempt after its wait for a permit. */
export interface Checks {
  /** The webhook as it is now; undefined if it no longer listens: then nothing is sent or stored. */
  readWebhook: () => Promise<WebhookRow | undefined>;
  /** Throws when another process may have the message; called after each wait, before anything is sent. */
  assertHeld: () => void;
}

export interface Attempts {
  /**
   * Attempts a delivery that has no row. Resolves when it has one: with the outcome, or pending if the attempt fails, or
   * waits for a permit or for the answer for longer than FIRST_ATTEMPT_TIMEOUT_MS. A repetition during the attempt joins
   * it. Rejects without a row: before anything is sent, or after `drain`.
   * @param webhook undefined: a request of a workflow
   */
  first(row: DeliveryRow, webhook: WebhookRow | undefined, checks: Checks): Promise<void>;
  /** The delivery waits for a permit of its first attempt. */
  isWaiting(id: string): boolean;
  /** The delivery, if it waits for a permit of its first attempt, becomes a row at once. */
  stopWaiting(id: string): void;
  /** Attempts the delivery of a claimed row. @param webhook undefined: a request of a workflow */
  retry(row: DeliveryRow, permit: Permit, webhook: WebhookRow | undefined): void;
  /** Waiting deliveries become rows. Resolves when no attempt is in progress. */
  drain(): Promise<void>;
}

const RETRY_DELAY_MS = 1_000;
/** A success is stored again after this time: another process may have stored a failure since. */
const SUCCESS_STORED_MS = 3_600_000;
/** Maximum delay of a claimed delivery for which there is no memory. */
const MAX_POSTPONED_MS = 2_000;

export function createAttempts(deps: AttemptsDeps): Attempts {
  const { store, clock, log, permits, timeout, health } = deps;
  const budget = deps.memory.delivery;
  const rows = store.collection(deliveries);
  const inProgress = new Set<Promise<void>>();
  /** First attempts without a row, by id. */
  const firsts = new Map<string, Promise<void>>();
  /** Of first attempts that wait for a permit, by id: ends the wait. */
  const waiting = new Map<string, () => void>();
  const draining = new AbortController();
  const report = createReport(deps);
  const inFlight = (state: string, read: () => number) =>
    deps.metrics.gauge('wellspring_delivery_in_flight', 'Attempts in progress', read, { state });
  inFlight('quick', () => permits.taken - permits.onProbation);
  inFlight('on probation', () => permits.onProbation);

  /** Repeats a write while the store does not answer: the request was made, and must not be made again. */
  async function persist<T>(write: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await write();
      } catch (error) {
        if (!(error instanceof Unavailable) || draining.signal.aborted) throw error;
        await clock.sleep(RETRY_DELAY_MS, draining.signal);
      }
    }
  }

  async function write(delivery: Delivery, fields: Partial<DeliveryRow>): Promise<boolean> {
    const { row, lease } = delivery;
    if (lease === undefined) {
      Object.assign(row, fields);
      const inserted = await persist(() => rows.insertMany([row]));
      delivery.stored.resolve();
      delivery.lease = row.due_at ?? 0;
      return inserted.length === 1;
    }
    const written = await persist(() => rows.patch(row.id, fields, { due_at: lease }));
    if (fields.due_at) delivery.lease = fields.due_at;
    return written;
  }

  /** Writes fields of the row, after earlier writes. False: another process has the delivery. */
  function save(delivery: Delivery, fields: Partial<DeliveryRow>): Promise<boolean> {
    const written = delivery.saved.then(() => write(delivery, fields));
    delivery.saved = written.catch(() => {});
    return written;
  }

  /** Ends an attempt with the fields of its row, which is due again if they say so. */
  async function finish(delivery: Delivery, fields: Partial<DeliveryRow>): Promise<boolean> {
    const isOwn = await save(delivery, fields);
    if (isOwn && fields.due_at) deps.wake(fields.due_at);
    return isOwn;
  }

  /** The delivery becomes a due row. */
  async function postpone(delivery: Delivery, receiver: Receiver): Promise<void> {
    await save(delivery, { due_at: clock.now() });
    permits.setDueRows(receiver, true);
    deps.wake();
  }

  function record({ id, webhook_id }: DeliveryRow, receiver: Receiver, webhook: WebhookRow, verdict: string) {
    const tried_at = clock.now();
    const failures = verdict === 'delivered' ? 0 : (receiver.failures ?? 0) + 1;
    const succeededBefore = receiver.failures === 0;
    permits.record(receiver, { failures, tried_at });
    if (failures === 0) {
      if (succeededBefore && Math.abs(tried_at - receiver.success_stored_at) < SUCCESS_STORED_MS)
        return undefined;
      receiver.success_stored_at = tried_at;
    }
    if (verdict === 'gone') return health.gone(webhook);
    const update = failures === 0 ? health.succeeded : health.failed;
    return update(webhook, { failures, tried_at }).catch((error) => {
      receiver.success_stored_at = 0;
      log.error({ delivery_id: id, webhook_id, error: String(error) }, 'delivery.health_failed');
    });
  }

  async function attempt(delivery: Delivery, permit: Permit, webhook: WebhookRow | undefined): Promise<void> {
    const { row } = delivery;
    const startedAt = clock.now();
    const ended = new AbortController();
    let free = () => {};
    const stopTimeout = timeout(() => {
      permit.setSlow(() => ended.abort(ENDED));
      // The message, whose bytes were counted, is acknowledged soon: the attempt needs a budget of its own.
      const taken = delivery.lease === undefined ? budget.tryTake(row.payload.length, row.owner_id) : free;
      if (taken) free = taken;
      else ended.abort(ENDED);
      // With a row, the message can be acknowledged while the attempt goes on.
      if (delivery.lease === undefined)
        save(delivery, { due_at: clock.now() + LEASE_MS }).catch(delivery.stored.reject);
    });
    try {
      if (!webhook) {
        const write = (fields: Partial<DeliveryRow>) => finish(delivery, fields);
        return await deps.sender(row, startedAt, write, {
          ended: ended.signal,
          assertHeld: delivery.assertHeld,
        });
      }
      const body = bodyOf(row, webhook);
      const headers = headersOf(row, deps.keys(webhook, startedAt), startedAt, body);
      const reply = await deps.post({ owner: row.owner_id, url: webhook.url, headers, body }, ended.signal);
      stopTimeout();
      const { verdict, fields } = outcomeOf(row, reply, startedAt, clock.now(), randomInt(1e6) / 1e6);
      report(row, reply, verdict);
      if (verdict === 'gone') {
        // A crash before the webhook is disabled repeats the attempt. One after it must find the row: the message of the
        // event, which is repeated, adds none for an inactive webhook.
        const lease = clock.now() + LEASE_MS;
        await save(delivery, { ...fields, status: 'pending', due_at: lease, failed_at_ms: null });
      }
      const updated = record(row, permit.receiver, webhook, verdict);
      permit.release();
      if (verdict === 'gone') await updated;
      await Promise.all([finish(delivery, fields), updated]);
    } finally {
      stopTimeout();
      permit.release();
      free();
    }
  }

  /** Attempts the delivery of a claimed row if there is memory for its payload. */
  async function attemptClaimed(
    delivery: Delivery,
    permit: Permit,
    webhook: WebhookRow | undefined,
  ): Promise<void> {
    const { payload, owner_id } = delivery.row;
    const free = budget.tryTake(payload.length + requestBytes(delivery.row), owner_id);
    if (!free) {
      permit.release();
      await finish(delivery, { due_at: clock.now() + randomInt(MAX_POSTPONED_MS) });
      return;
    }
    await attempt(delivery, permit, webhook).finally(free);
  }

  /** Logs a failure: the lease then expires, or the message is redelivered. */
  function track(delivery: Delivery, work: Promise<void>): void {
    const tracked = work.catch(async (error: unknown) => {
      // A write in progress may store it.
      await delivery.saved;
      delivery.stored.reject(error);
      log.error({ delivery_id: delivery.row.id, error: String(error) }, 'delivery.attempt_failed');
    });
    inProgress.add(tracked);
    void tracked.then(() => inProgress.delete(tracked));
  }

  /** Ends the wait for a permit after the timeout, or by `stopWaiting`. */
  function waitTimeout(id: string, end: () => void): () => void {
    const stop = timeout(end);
    waiting.set(id, end);
    return () => {
      stop();
      waiting.delete(id);
    };
  }

  async function begin(
    delivery: Delivery,
    found: WebhookRow | undefined,
    readWebhook: Checks['readWebhook'],
  ): Promise<void> {
    const { webhook_id, owner_id } = delivery.row;
    // The workflow was deleted.
    if (!found && !(await findEmitter(store, webhook_id))?.active) return delivery.stored.resolve();
    const receiver = permits.receiver(webhook_id, owner_id, found);
    const permit = await permits.acquire(receiver, (onTimeout) => waitTimeout(delivery.row.id, onTimeout));
    let webhook: WebhookRow | undefined;
    try {
      webhook = found && (await readWebhook());
      delivery.assertHeld();
    } catch (error) {
      permit?.release();
      return delivery.stored.reject(error);
    }
    if (found && !webhook) {
      permit?.release();
      return delivery.stored.resolve();
    }
    if (!permit) return postpone(delivery, receiver);
    const bytes = requestBytes(delivery.row);
    const free = bytes === 0 ? () => {} : budget.tryTake(bytes, owner_id);
    if (free) return attempt(delivery, permit, webhook).finally(free);
    permit.release();
    await postpone(delivery, receiver);
  }

  return {
    first(row, webhook, { readWebhook, assertHeld }) {
      const known = firsts.get(row.id);
      if (known) return known;
      const stored = Promise.withResolvers<void>();
      const delivery: Delivery = { row, lease: undefined, stored, saved: Promise.resolve(), assertHeld };
      firsts.set(row.id, stored.promise);
      const forget = () => void firsts.delete(row.id);
      stored.promise.then(forget, forget);
      track(delivery, begin(delivery, webhook, readWebhook));
      return stored.promise;
    },
    isWaiting: (id) => waiting.has(id),
    stopWaiting: (id) => waiting.get(id)?.(),
    retry(row, permit, webhook) {
      const stored = Promise.withResolvers<void>();
      stored.promise.catch(() => {});
      const saved = Promise.resolve();
      const delivery: Delivery = { row, lease: row.due_at!, stored, saved, assertHeld: () => {} };
      track(delivery, attemptClaimed(delivery, permit, webhook));
    },
    async drain() {
      draining.abort();
      permits.close();
      while (inProgress.size > 0) await Promise.all(inProgress);
    },
  };
}
