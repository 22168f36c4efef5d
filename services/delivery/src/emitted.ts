import { LIMITS } from '@wellspring/contract/limits';
import type { EmittedEvent, EmittedMessage, ReplayMessage } from '@wellspring/contract/messages';
import { eventIdOfSortKey } from '@wellspring/core/event-id';
import { pauseIfLarge } from '@wellspring/core/in-pieces';
import { Unavailable } from '@wellspring/core/unavailable';
import type { Handler, Job } from '@wellspring/queue/port';
import { readMessage } from '@wellspring/queue/read-message';
import type { Deps } from '@wellspring/runtime/deps';
import { channelWhere, type EventRow, events } from '@wellspring/store/collections/events';
import type { Store, Where } from '@wellspring/store/port';
import type { FanOut } from './fan-out.ts';

/** A page ends at either; events are read a few at a time, since they may be large. */
const PAGE_EVENTS = 64;
const PAGE_BYTES = 1024 * 1024;
const CHUNK_SIZE = 2;
const MAX_PAGE_BYTES = PAGE_BYTES + CHUNK_SIZE * LIMITS.emit;

/**
 * Handles the queue `emitted`: messages of commits together, replays page by page. The rest of a replay is published as
 * a new job, so that the emitter's new events are not held up. Idempotent: a repeated page has the same delivery keys and
 * run ids.
 */
export function createEmittedHandler(
  { store, queue, memory, signal }: Pick<Deps, 'store' | 'queue' | 'memory'> & { signal: AbortSignal },
  fanOut: FanOut,
): Handler {
  async function replay(message: ReplayMessage, assertHeld: () => void): Promise<void> {
    const release = await memory.replays.take(MAX_PAGE_BYTES, message.owner_id, signal).catch(() => {
      throw new Unavailable('The process ends');
    });
    let page: Awaited<ReturnType<typeof pageOf>>;
    try {
      page = await pageOf(store, message);
      release.keep(page.bytes);
      if (page.found.length > 0) await fanOut([asEmitted(message, page.found)], () => {}, assertHeld);
    } finally {
      release();
    }
    const { found, isLast } = page;
    if (isLast) return;
    // Published by a former owner, too, the rest would be replayed twice.
    assertHeld();
    const rest: ReplayMessage = { ...message, after: found.at(-1)!.sort_key };
    await queue.publish('emitted', { key: message.emitter_id, payload: JSON.stringify(rest) });
  }

  return async (jobs, next, assertHeld) => {
    const messages: (EmittedMessage | ReplayMessage)[] = [];
    for (const job of jobs) {
      // The commit of its event has just been written, in the same turn.
      await pauseIfLarge(job.payload.length);
      messages.push(readJob(job));
    }
    const commits = messages.filter((message) => message.type === 'emitted');
    if (commits.length > 0) await fanOut(commits, next, assertHeld);
    // New events do not wait for a replay; its own pages follow one another.
    next();
    for (const message of messages) if (message.type === 'replay') await replay(message, assertHeld);
  };
}

/** @throws PoisonJob, NewerVersion */
function readJob(job: Job): EmittedMessage | ReplayMessage {
  const message = readMessage<EmittedMessage | ReplayMessage>(job, ['emitted', 'replay']);
  if (!job.redelivered && job.attempt === 1) return message;
  // Its listeners may have been deleted meanwhile.
  if (message.type === 'emitted') delete message.revision;
  return { ...message, redelivered: true };
}

async function pageOf(store: Store, { emitter_id, event_name, after, end }: ReplayMessage) {
  const where: Where<EventRow> =
    event_name === undefined || event_name === '$errors'
      ? { partition: `${emitter_id}/${event_name ?? 'events'}` }
      : channelWhere(emitter_id, 'events', event_name);
  const found: EventRow[] = [];
  let bytes = 0;
  while (found.length < PAGE_EVENTS && bytes < PAGE_BYTES) {
    const chunk = await store.collection(events).list({
      where: { ...where, sort_key: { gt: found.at(-1)?.sort_key ?? after, lte: end } },
      orderBy: 'sort_key',
      order: 'asc',
      limit: CHUNK_SIZE,
    });
    found.push(...chunk);
    for (const { payload } of chunk) bytes += payload.length;
    if (chunk.length < CHUNK_SIZE) return { found, bytes, isLast: true };
  }
  return { found, bytes, isLast: false };
}

function asEmitted(message: ReplayMessage, found: readonly EventRow[]): EmittedMessage {
  const { emitter_id, owner_id, replay_id, at, listener_id, redelivered } = message;
  return {
    v: 1,
    type: 'emitted',
    run_id: replay_id,
    emitter_id,
    owner_id,
    hop: 0,
    events: found.map(
      ({ sort_key, name, payload }): EmittedEvent => ({
        event_id: eventIdOfSortKey(sort_key),
        name,
        payload,
        trace_id: replay_id,
      }),
    ),
    replay: { id: replay_id, at, ...(listener_id !== undefined && { listener_id }) },
    ...(redelivered && { redelivered }),
  };
}
