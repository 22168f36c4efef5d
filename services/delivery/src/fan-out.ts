import { setImmediate as nextTurn } from 'node:timers/promises';
import type { EmittedEvent, EmittedMessage, RunJob } from '@wellspring/contract/messages';
import { parseEventId } from '@wellspring/core/event-id';
import { derivedRunId } from '@wellspring/core/ids';
import { spreadOrderingKey } from '@wellspring/core/ordering-key';
import { Unavailable } from '@wellspring/core/unavailable';
import type { JobInput } from '@wellspring/queue/port';
import type { Deps } from '@wellspring/runtime/deps';
import { isWorkflowId } from '@wellspring/store/collections/emitters';
import { newestRevision } from '@wellspring/store/collections/revisions';
import {
  type DeliveryRow,
  deliveries,
  deliveryId,
  NOT_ATTEMPTED,
  type WebhookRow,
} from '@wellspring/store/collections/webhooks';
import type { Attempts } from './attempts.ts';
import { chunksOf } from './chunks.ts';
import { type CurrentWebhook, createCurrentWebhook } from './current-webhook.ts';
import type { DelayedEvents } from './delayed.ts';
import type { FindListeners } from './listeners.ts';
import { type Listeners, onlyListener } from './match.ts';
import { sendRow } from './sends/sends.ts';
import { createWindows, type WindowLimits } from './windows.ts';

/**
 * @param messages of one emitter
 * @param next lets the following messages of the emitter start
 * @param assertHeld throws when another process may have the messages
 */
export type FanOut = (
  messages: readonly EmittedMessage[],
  next: () => void,
  assertHeld: () => void,
) => Promise<void>;

interface FanOutDeps extends Pick<Deps, 'store' | 'queue' | 'call' | 'clock' | 'log'> {
  attempts: Pick<Attempts, 'first' | 'isWaiting' | 'stopWaiting'>;
  listeners: FindListeners;
  delayed: Pick<DelayedEvents, 'store'>;
  /** Aborted when the process ends: messages that are not done are redelivered. */
  signal: AbortSignal;
}

/**
 * Deliveries of one emitter whose first attempt waits or is in progress. If the emitter has several listeners, those that
 * take long leave the window for others: an attempt goes on, and a delivery that waits for a permit becomes a row. With
 * one listener its messages wait instead, which costs no row.
 */
const WINDOW: WindowLimits = { size: 128, displaced: 2_048, waitingMs: 250, inProgressMs: 100 };

/**
 * Deterministic per event and listener, so that a repeated fan-out runs nothing twice. Runs of a replay are not numbered,
 * since the events of a page may change.
 * @param n index among the events of the channel in this message
 */
const runIdOf = (message: EmittedMessage, event: EmittedEvent, n: number, listenerId: string) => {
  const { emitter_id, run_id, replay } = message;
  const cause = replay ? [replay.id, event.event_id] : [run_id];
  const id = derivedRunId(JSON.stringify([emitter_id, ...cause, event.name, listenerId]));
  return replay ? id : `${id}-${n}`;
};

/** A delivery or a request that has no row yet, or may have one if its message is redelivered. */
interface NewDelivery {
  row: DeliveryRow;
  redelivered: boolean;
}

/**
 * Fans out messages of one emitter: queues a run per event and listening source or workflow, then attempts a delivery
 * per event and webhook, and each request of a workflow. Resolves when all deliveries have rows. Works in chunks with a
 * turn of the event loop in between, so that a message with many deliveries holds up nothing else. Idempotent: ids are
 * derived, and of a redelivered message only deliveries without a row are attempted. A former owner of the messages stops:
 * the next one does not know what it would begin.
 */
export function createFanOut(deps: FanOutDeps): FanOut {
  const { store, queue, call, clock, log, attempts, listeners, delayed, signal } = deps;
  const rows = store.collection(deliveries);
  const windows = createWindows(WINDOW, clock);

  /** In order. */
  async function publish(runs: Iterable<JobInput>, assertHeld: () => void): Promise<number> {
    let count = 0;
    for (const chunk of chunksOf(runs, ({ payload }) => payload.length)) {
      if (count > 0) await nextTurn();
      assertHeld();
      await queue.publishMany('runs', chunk);
      count += chunk.length;
    }
    return count;
  }

  async function withoutRow(chunk: NewDelivery[]): Promise<NewDelivery[]> {
    const ids = chunk.filter(({ redelivered }) => redelivered).map(({ row }) => row.id);
    if (ids.length === 0) return chunk;
    const found = await rows.list({ where: { id: { in: ids } }, texts: false });
    const known = new Set(found.map(({ id }) => id));
    return chunk.filter(({ row }) => !known.has(row.id));
  }

  /**
   * Starts the first attempts, a few at a time; `done` resolves when all have rows. Rejects, as `done` does, only when none
   * is in progress: it has no row yet, so the repeated messages would begin it again.
   * @param isShared the emitter may have deliveries to others
   * @param current many deliveries may take minutes, in which webhooks change
   */
  async function deliver(
    windowKey: string,
    pending: Iterable<NewDelivery>,
    isShared: boolean,
    current: CurrentWebhook,
    assertHeld: () => void,
  ) {
    let count = 0;
    let open = 1;
    let failure: unknown;
    const all = Promise.withResolvers<void>();
    const fail = (error: unknown) => {
      failure ??= error;
    };
    const settle = () => {
      open -= 1;
      if (open > 0) return;
      if (failure === undefined) all.resolve();
      else all.reject(failure);
    };
    try {
      for (const chunk of chunksOf(pending, ({ row }) => row.payload.length)) {
        if (count > 0) await nextTurn();
        for (const { row } of await withoutRow(chunk)) {
          if (signal.aborted) throw new Unavailable('The process ends');
          assertHeld();
          const readWebhook = () => current(row.event_name, row.webhook_id);
          const webhook = row.send ? undefined : await readWebhook();
          // Deleted, paused or unsubscribed since.
          if (!row.send && !webhook) continue;
          const entered = windows.enter(windowKey, isShared, {
            isWaiting: () => attempts.isWaiting(row.id),
            onDisplaced: () => attempts.stopWaiting(row.id),
          });
          const leave = typeof entered === 'function' ? entered : await entered;
          open += 1;
          count += 1;
          const stored = attempts.first(row, webhook, { readWebhook, assertHeld });
          stored.catch(fail).finally(() => {
            leave();
            settle();
          });
        }
      }
    } catch (error) {
      fail(error);
    }
    settle();
    if (failure !== undefined) await all.promise;
    return { count, done: all.promise };
  }

  return async (messages, next, assertHeld) => {
    const { emitter_id, owner_id } = messages[0]!;
    const names = [...new Set(messages.flatMap(({ events }) => events.map(({ name }) => name)))];
    const now = clock.now();
    const emitter = { id: emitter_id, owner_id };
    const found = names.length === 0 ? new Map() : await listeners(emitter, names, newestRevision(messages));
    // The workflow that was to answer is gone.
    for (const { event, to } of eventsOf(messages.filter(hasReply), found)) {
      const { reply } = event;
      if (reply && !to.runs.some(({ id }) => id === reply.by)) call.reply(reply.to, { kind: 'none' });
    }
    const heard = messages.map((message) => onlyHeard(message, found));
    // Before `next`: they are in the order of the events.
    const runs = await publish(runsOf(heard, found, now), assertHeld);
    await delayed.store(messages);
    const current = createCurrentWebhook(clock, found, () => listeners(emitter, names));
    const pending = deliveriesOf(heard, found, now);
    const isShared = hasSeveralListeners(emitter_id, found);
    const windowKey = messages[0]!.replay ? `${emitter_id}/replay` : emitter_id;
    const { count, done } = await deliver(windowKey, pending, isShared, current, assertHeld);
    done.catch(() => {});
    next();
    await done;
    log.debug({ emitter_id, runs: messages.length, deliveries: count, listening: runs }, 'event.fanned_out');
  };
}

/** Webhooks, runs, and for workflows their requests. */
const hasSeveralListeners = (emitterId: string, found: ReadonlyMap<string, Listeners>): boolean =>
  isWorkflowId(emitterId) || found.values().some(({ isShared }) => isShared);

const hasReply = ({ events }: EmittedMessage) => events.some(({ reply }) => reply !== undefined);

/** The message without the events of channels that have no listener: there may be thousands. */
const onlyHeard = (message: EmittedMessage, found: ReadonlyMap<string, Listeners>): EmittedMessage => ({
  ...message,
  events: message.events.filter(({ name }) => {
    const { webhooks, runs } = found.get(name)!;
    return webhooks.length + runs.length > 0;
  }),
});

/** Each event with its listeners, and its index among the events of its channel in its message. */
function* eventsOf(messages: readonly EmittedMessage[], found: ReadonlyMap<string, Listeners>) {
  for (const message of messages) {
    const numbers = new Map<string, number>();
    for (const event of message.events) {
      const n = numbers.get(event.name) ?? 0;
      numbers.set(event.name, n + 1);
      yield { message, event, n, to: onlyListener(found.get(event.name)!, message.replay?.listener_id) };
    }
  }
}

function* runsOf(
  messages: readonly EmittedMessage[],
  found: ReadonlyMap<string, Listeners>,
  now: number,
): Generator<JobInput> {
  for (const { message, event, n, to } of eventsOf(messages, found)) {
    for (const listener of to.runs) yield runJob(message, event, n, listener, now);
  }
}

function* deliveriesOf(
  messages: readonly EmittedMessage[],
  found: ReadonlyMap<string, Listeners>,
  now: number,
): Generator<NewDelivery> {
  for (const message of messages) {
    const redelivered = message.redelivered === true;
    // Requests are never repeated: their rows are looked up even if the message is not flagged as redelivered.
    for (const send of message.sends ?? []) yield { row: sendRow(message, send, now), redelivered: true };
    for (const { event, to } of eventsOf([message], found)) {
      for (const webhook of to.webhooks) yield { row: rowOf(message, event, webhook, now), redelivered };
    }
  }
}

function rowOf(message: EmittedMessage, event: EmittedEvent, webhook: WebhookRow, now: number): DeliveryRow {
  const { emitter_id, hop, replay } = message;
  const delivered = {
    webhook_id: webhook.id,
    emitter_id,
    event_id: event.event_id,
    event_name: event.name,
    ...(replay && { replay: replay.id }),
  };
  return {
    id: deliveryId(delivered, replay?.at),
    ...delivered,
    owner_id: webhook.owner_id,
    hop: hop + 1,
    ...NOT_ATTEMPTED,
    created_at: Math.floor(now / 1000),
    payload: event.payload,
  };
}

function runJob(
  message: EmittedMessage,
  event: EmittedEvent,
  n: number,
  listener: Listeners['runs'][number],
  now: number,
): JobInput {
  const { emitter_id, hop } = message;
  const job: RunJob = {
    v: 1,
    type: 'run',
    run_id: runIdOf(message, event, n, listener.id),
    source_id: listener.id,
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
    ...(event.reply?.by === listener.id && { reply_to: event.reply.to }),
  };
  // The same when the message is repeated.
  const id = parseEventId(event.event_id);
  return { key: spreadOrderingKey(listener, id ? id.ms + id.n : 0), payload: JSON.stringify(job) };
}
