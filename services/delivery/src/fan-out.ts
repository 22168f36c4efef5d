import type { EmittedEvent, EmittedMessage, RunJob } from '@wellspring/contract/messages';
import type { Clock } from '@wellspring/core/clock';
import { derivedRunId, newId } from '@wellspring/core/ids';
import type { Log } from '@wellspring/core/log';
import type { JobInput, Queue } from '@wellspring/queue/port';
import type { Deps } from '@wellspring/runtime/deps';
import { streamOf } from '@wellspring/store/collections/find-event';
import { type DeliveryRow, deliveries } from '@wellspring/store/collections/webhooks';
import type { Store } from '@wellspring/store/port';
import type { Attempts } from './attempts.ts';
import type { DelayedEvents } from './delayed.ts';
import { LEASE_MS } from './lease.ts';
import { type Listeners, listenersOf } from './match.ts';
import type { RecentWebhooks } from './recent-webhooks.ts';
import { sendRow } from './sends/sends.ts';

/** @param messages of one emitter */
export type FanOut = (messages: readonly EmittedMessage[]) => Promise<void>;

export interface FanOutDeps {
  attempts: Pick<Attempts, 'accept' | 'room' | 'parked'>;
  recent: RecentWebhooks;
  delayed: Pick<DelayedEvents, 'store'>;
  store: Store;
  queue: Queue;
  call: Pick<Deps['call'], 'reply'>;
  clock: Clock;
  log: Log;
}

/**
 * Deterministic per event and listener, so that a repeated fan-out runs nothing twice. Runs of a replay are not numbered,
 * since the events of a page may change.
 * @param n index among the events of the channel in this message; see `committed.ts` of the runner
 */
const runIdOf = (message: EmittedMessage, event: EmittedEvent, n: number, listenerId: string) => {
  const { emitter_id, run_id, replay } = message;
  const cause = replay ? [replay.id, event.event_id] : [run_id];
  const id = derivedRunId(JSON.stringify([emitter_id, ...cause, event.name, listenerId]));
  return replay ? id : `${id}-${n}`;
};

/** Of a replay for one listener: only that one. */
const listenersOfMessage = ({ replay }: EmittedMessage, found: Listeners): Listeners => {
  const only = replay?.listener_id;
  if (only === undefined) return found;
  return {
    webhooks: found.webhooks.filter(({ id }) => id === only),
    runs: found.runs.filter((id) => id === only),
  };
};

const dedupeKeyOf = ({ emitter_id, replay }: EmittedMessage, event: EmittedEvent, webhookId: string) => {
  const key = `${webhookId}/${emitter_id}/${streamOf(event.name)}/${event.event_id}`;
  return replay ? `${key}/replay/${replay.id}` : key;
};

/**
 * Fans out messages of one emitter: stores a delivery per event and webhook, and per request of a workflow, and queues a run
 * per event and listening source or workflow.
 * Idempotent. This process makes the first attempts, under the lease written with the rows; rows that exceed the
 * per-webhook queue are written as parked.
 */
export function createFanOut({
  store,
  queue,
  call,
  clock,
  log,
  attempts,
  recent,
  delayed,
}: FanOutDeps): FanOut {
  const rowsOfDeliveries = store.collection(deliveries);

  async function insert(rows: DeliveryRow[]): Promise<void> {
    const room = new Map<string, number>();
    for (const row of rows) {
      const { webhook_id } = row;
      const left = room.get(webhook_id) ?? attempts.room(webhook_id);
      room.set(webhook_id, left - 1);
      if (left <= 0) Object.assign(row, { due_at: null, waiting: webhook_id });
    }
    const inserted = new Set(await rowsOfDeliveries.insertMany(rows));
    const parked = new Set<string>();
    for (const row of rows) {
      if (!inserted.has(row.id)) continue;
      if (row.due_at === null) parked.add(row.webhook_id);
      else attempts.accept(row, row.due_at);
    }
    for (const webhookId of parked) attempts.parked(webhookId);
    if (inserted.size === rows.length) return;
    // Either this fan-out is a repetition, or the random id is taken by another delivery.
    const missing = rows.filter(({ id }) => !inserted.has(id));
    const known = await rowsOfDeliveries.list({
      where: { dedupe_key: { in: missing.map((row) => row.dedupe_key!) } },
    });
    const keys = new Set(known.map((row) => row.dedupe_key));
    const renamed = missing.filter((row) => !keys.has(row.dedupe_key));
    if (renamed.length > 0) await insert(renamed.map((row) => ({ ...row, id: newId('dlv') })));
  }

  return async (messages) => {
    const { emitter_id, owner_id } = messages[0]!;
    const names = [...new Set(messages.flatMap(({ events }) => events.map(({ name }) => name)))];
    const now = clock.now();
    const listeners = await listenersOf(store, { id: emitter_id, owner_id }, names);
    for (const { webhooks } of listeners.values()) for (const one of webhooks) recent.put(one, now);

    const rows: DeliveryRow[] = [];
    const runs: JobInput[] = [];
    for (const message of messages) {
      const numbers = new Map<string, number>();
      for (const send of message.sends ?? []) rows.push(sendRow(message, send, now, now + LEASE_MS));
      for (const event of message.events) {
        const { webhooks, runs: listening } = listenersOfMessage(message, listeners.get(event.name)!);
        const n = numbers.get(event.name) ?? 0;
        numbers.set(event.name, n + 1);
        for (const webhook of webhooks) {
          rows.push({
            id: newId('dlv'),
            webhook_id: webhook.id,
            owner_id: webhook.owner_id,
            dedupe_key: dedupeKeyOf(message, event, webhook.id),
            ...(message.replay && { replay: true as const }),
            emitter_id,
            event_id: event.event_id,
            event_name: event.name,
            hop: message.hop + 1,
            status: 'pending',
            attempts: 0,
            due_at: now + LEASE_MS,
            waiting: null,
            failed_at_ms: null,
            log: '',
            created_at: Math.floor(now / 1000),
            created_at_ms: now,
            payload: event.payload,
          });
        }
        // The workflow that was to answer is gone.
        if (event.reply && !listening.includes(event.reply.by)) call.reply(event.reply.to, { kind: 'none' });
        for (const id of listening) runs.push(runJob(message, event, n, id, now));
      }
    }
    // In one turn, hence one transaction where the store supports it.
    await Promise.all([
      rows.length > 0 && insert(rows),
      runs.length > 0 && queue.publishMany('runs', runs),
      delayed.store(messages),
    ]);
    log.debug(
      { emitter_id, runs: messages.length, deliveries: rows.length, listening: runs.length },
      'event.fanned_out',
    );
  };
}

function runJob(
  message: EmittedMessage,
  event: EmittedEvent,
  n: number,
  sourceId: string,
  now: number,
): JobInput {
  const { emitter_id, hop } = message;
  const job: RunJob = {
    v: 1,
    type: 'run',
    run_id: runIdOf(message, event, n, sourceId),
    source_id: sourceId,
    trigger: {
      kind: 'event',
      payload: event.payload,
      emitter_id,
      event_id: event.event_id,
      event_name: event.name,
      ...(message.replay && { replay: true as const }),
    },
    hop: hop + 1,
    trace_id: event.trace_id,
    accepted_at: now,
    ...(message.redelivered && { redelivered: true }),
    ...(event.reply?.by === sourceId && { reply_to: event.reply.to }),
  };
  return { key: sourceId, payload: JSON.stringify(job) };
}
