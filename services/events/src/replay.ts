import { randomUUID } from 'node:crypto';
import { isReservedChannel } from '@wellspring/contract/channels';
import { replayEvents } from '@wellspring/contract/endpoints/events';
import type { ReplayMessage } from '@wellspring/contract/messages';
import type { Principal } from '@wellspring/contract/principal';
import { eventSortKey, parseSortKey } from '@wellspring/core/event-id';
import { invalidParameter, missingParameter, notFound, tooManyRequests } from '@wellspring/core/problem';
import { type Route, route } from '@wellspring/http/bind';
import { canAccess } from '@wellspring/http/principal';
import type { Deps } from '@wellspring/runtime/deps';
import { type Emitter, findEmitter } from '@wellspring/store/collections/emitters';
import { subscriptionsTo } from '@wellspring/store/collections/subscription-reach';
import { subscriptions } from '@wellspring/store/collections/subscriptions';
import { webhooks } from '@wellspring/store/collections/webhooks';
import type { Store } from '@wellspring/store/port';
import { assertReadableSource } from './access.ts';
import { channelOf, countBetween } from './channel.ts';
import { keyOfId } from './delete-events.ts';

/** Replays of a source a second, and twice as many at once: each may have thousands of events. */
const RATE = 5;
/** Sorts before every key. */
const FIRST = '';

/** Replays a range of events: counts them and leaves the rest to the delivery service, as a job. */
export function replayRoutes({
  store,
  queue,
  buckets,
  clock,
}: Pick<Deps, 'store' | 'queue' | 'buckets' | 'clock'>): Route[] {
  return [
    route(replayEvents, async ({ principal, params, input }) => {
      const { event_id, start_id, end_id, event_name, listener_id } = input;
      if (event_id === undefined && start_id === undefined) {
        throw missingParameter('event_id', 'event_id is required, or start_id and end_id.');
      }
      if (event_id !== undefined && (start_id !== undefined || end_id !== undefined)) {
        throw invalidParameter('event_id', 'Only one of event_id and a range can be given.');
      }
      if (event_name === '$logs' || event_name === '$in') {
        throw invalidParameter('event_name', `The channel ${event_name} cannot be replayed.`);
      }
      const start = event_id === undefined ? keyOfId('start_id', start_id) : keyOfId('event_id', event_id);
      const given = event_id === undefined ? keyOfId('end_id', end_id) : start;
      await assertReadableSource(store, principal, params.id);
      const source = await findEmitter(store, params.id);
      // Its deletion has begun since.
      if (!source) throw notFound('source', params.id);
      if (listener_id !== undefined) {
        await checkListener(store, principal, source, listener_id, event_name);
      }

      const channel = channelOf(store, source.id, event_name);
      // Events emitted from now on are not replayed.
      const newest = await channel.newestKey();
      const end = given === undefined || (newest !== undefined && newest < given) ? newest : given;
      const after = keyBefore(start!);
      const count =
        end === undefined || end < start!
          ? 0
          : await countBetween(store, source.id, event_name, { after, end });
      if (count === 0) {
        if (event_id !== undefined) throw notFound('event', event_id);
        return { count };
      }
      const seconds = await buckets.take(`replay/${source.id}`, RATE);
      if (seconds > 0) throw tooManyRequests(seconds);
      const message: ReplayMessage = {
        v: 1,
        type: 'replay',
        replay_id: randomUUID(),
        at: clock.now(),
        emitter_id: source.id,
        owner_id: source.owner_id,
        ...(event_name !== undefined && { event_name }),
        after,
        end: end!,
        ...(listener_id !== undefined && { listener_id }),
      };
      await queue.publish('emitted', { key: source.id, payload: JSON.stringify(message) });
      return { count };
    }),
  ];
}

/** The greatest sort key below this one, whether or not it belongs to an event. */
function keyBefore(key: string): string {
  const { ms, n } = parseSortKey(key);
  if (n > 0) return eventSortKey({ ms, n: n - 1 });
  return ms > 0 ? eventSortKey({ ms: ms - 1, n: 999_999_999 }) : FIRST;
}

/**
 * @param eventName absent: any channel but those of the platform
 * @throws Problem 404 for a listener of another tenant, 400 if it does not listen to this channel of the source
 */
async function checkListener(
  store: Store,
  principal: Principal,
  source: Emitter,
  listenerId: string,
  eventName: string | undefined,
): Promise<void> {
  const listener: { owner_id: string } | undefined = listenerId.startsWith('wh_')
    ? await store.collection(webhooks).get(listenerId)
    : await findEmitter(store, listenerId);
  if (!listener || !canAccess(principal, listener.owner_id)) throw notFound('listener', listenerId);
  const found = await Promise.all(
    subscriptionsTo(source).map((where) =>
      store.collection(subscriptions).list({ where: { ...where, listener_id: listenerId } }),
    ),
  );
  const listens = found
    .flat()
    .some(({ event_name }) =>
      eventName === undefined ? !isReservedChannel(event_name) : event_name === eventName,
    );
  if (listens) return;
  const channel = eventName === undefined ? '' : ` on the channel ${JSON.stringify(eventName)}`;
  throw invalidParameter('listener_id', `${listenerId} has no subscription to ${source.id}${channel}.`);
}
