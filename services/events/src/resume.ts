import { eventSortKey, parseEventId } from '@wellspring/core/event-id';
import { isWorkflowId } from '@wellspring/store/collections/emitters';
import { states } from '@wellspring/store/collections/states';
import type { Store } from '@wellspring/store/port';
import { type Channel, lastOutside } from './channel.ts';

/**
 * The sort key after which a stream starts. Without an id: after the newest event; of a workflow, with the newest 100.
 * With an id: after that event; an id unknown to the emitter means all retained events.
 */
export async function resumeAfter(
  store: Store,
  emitterId: string,
  channel: Channel,
  eventName: string | undefined,
  lastEventId: string | undefined,
): Promise<string> {
  const isGiven = lastEventId !== undefined && lastEventId !== '';
  if (!isGiven && isWorkflowId(emitterId)) return lastOutside(channel);
  const newest = (await channel.newestKey()) ?? '';
  if (!isGiven) return newest;
  const id = parseEventId(lastEventId);
  if (!id) return '';
  const key = eventSortKey(id);
  if (key <= newest) return key;
  // Either newer events were deleted, or the id is unknown: waiting for later events would never end.
  const state = await store.collection(states).get(emitterId);
  const stream = eventName?.startsWith('$') ? eventName : 'events';
  return key <= (state?.last_ids[stream] ?? '') ? key : '';
}
