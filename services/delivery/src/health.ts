import { errorRecordJob } from '@wellspring/contract/error-record';
import type { RecordJob } from '@wellspring/contract/messages';
import { isGlob } from '@wellspring/core/glob';
import { derivedRunId } from '@wellspring/core/ids';
import { changedTopic } from '@wellspring/pubsub/port';
import type { Deps } from '@wellspring/runtime/deps';
import { type Emitter, emittersOfOwner, findEmitter } from '@wellspring/store/collections/emitters';
import { createReach } from '@wellspring/store/collections/subscription-reach';
import { type SubscriptionRow, subscriptions } from '@wellspring/store/collections/subscriptions';
import { type WebhookRow, webhooks } from '@wellspring/store/collections/webhooks';
import { modify } from '@wellspring/store/port';
import type { Health } from './pause.ts';

/** A webhook without a success for this long is disabled. */
export const FAILING_LIMIT_MS = 5 * 24 * 3_600_000;

type HealthDeps = Pick<Deps, 'store' | 'queue' | 'pubsub' | 'clock' | 'log'>;

/** Updates the row of a webhook according to the outcome of an attempt; `failures` is that of this process. */
export interface WebhookHealth {
  /** An attempt succeeded. */
  succeeded(webhook: WebhookRow, health: Health): Promise<void>;
  /** An attempt failed; after five days without a success disables the webhook and notifies its emitters. */
  failed(webhook: WebhookRow, health: Health): Promise<void>;
  /** The receiver answered 410. */
  gone(webhook: WebhookRow): Promise<void>;
}

export function createWebhookHealth({ store, queue, pubsub, clock, log }: HealthDeps): WebhookHealth {
  const collection = store.collection(webhooks);

  async function disable(webhook: WebhookRow, since: number): Promise<void> {
    // Before disabling: the records are idempotent, so a crash in between only repeats them.
    await notifyEmitters(webhook, since);
    const row = await modify(collection, webhook.id, (found) =>
      found.failing_since === since
        ? { ...found, active: false, updated_at: Math.floor(clock.now() / 1000) }
        : found,
    );
    // It has succeeded meanwhile, or was changed.
    if (row?.failing_since !== since) return;
    pubsub.publish(changedTopic(webhook.id));
    log.warn({ webhook_id: webhook.id, failing_since: since }, 'webhook.disabled');
  }

  async function notifyEmitters(webhook: WebhookRow, since: number): Promise<void> {
    const listening = await store.collection(subscriptions).list({ where: { listener_id: webhook.id } });
    const notified = new Map<string, Emitter>();
    const reaches = createReach(store);
    for (const subscription of listening) {
      for (const emitter of await emittersOf(subscription, reaches)) notified.set(emitter.id, emitter);
    }
    const jobs = [...notified.values()].map((emitter) => recordOf(webhook, since, emitter, clock.now()));
    if (jobs.length > 0) {
      await queue.publishMany(
        'runs',
        jobs.map((job) => ({ key: job.source_id, payload: JSON.stringify(job) })),
      );
    }
  }

  async function emittersOf(
    subscription: SubscriptionRow,
    reaches: ReturnType<typeof createReach>,
  ): Promise<Emitter[]> {
    const { emitter_id, owner_id } = subscription;
    if (/^(?:dc|p)_/.test(emitter_id) && !isGlob(emitter_id)) {
      const emitter = await findEmitter(store, emitter_id);
      return emitter && (await reaches(subscription, emitter.owner_id)) ? [emitter] : [];
    }
    const owner = isGlob(emitter_id) ? owner_id : emitter_id;
    if (!(await reaches(subscription, owner))) return [];
    return emittersOfOwner(store, owner, isGlob(emitter_id) ? emitter_id : undefined);
  }

  return {
    async succeeded({ id }, health) {
      await collection.patch(id, { ...health, failing_since: null });
    },
    async failed({ id }, health) {
      // The row in memory may be older than the first failure.
      const row = await collection.get(id);
      if (!row) return;
      const since = row.failing_since ?? health.tried_at;
      // Not written again: another process may have stored a success since the row was read.
      await collection.patch(id, row.failing_since === null ? { ...health, failing_since: since } : health);
      if (row.active && health.tried_at - since >= FAILING_LIMIT_MS) await disable(row, since);
    },
    async gone(webhook) {
      const updated_at = Math.floor(clock.now() / 1000);
      // The 410 came from this URL; it may have been changed meanwhile.
      const row = await modify(collection, webhook.id, (found) =>
        found.url === webhook.url ? { ...found, active: false, updated_at } : found,
      );
      if (row?.url !== webhook.url) return;
      pubsub.publish(changedTopic(webhook.id));
      log.warn({ webhook_id: webhook.id }, 'webhook.gone');
    },
  };
}

/** The record on `$errors` of an emitter whose webhook was disabled. */
function recordOf(webhook: WebhookRow, since: number, emitter: Emitter, now: number): RecordJob {
  return errorRecordJob({
    run_id: derivedRunId(`${webhook.id}/${since}/${emitter.id}`),
    emitter,
    source_type: 'WEBHOOK',
    code: 'WebhookDisabled',
    msg: `The webhook ${webhook.id} was disabled: since ${new Date(since).toISOString()} every delivery failed.`,
    now,
  });
}
