import { eventIdOfSortKey, eventSortKey, parseEventId } from '@wellspring/core/event-id';
import type { Store } from '../port.ts';
import { events, logs } from './events.ts';

/** The stream of a channel. */
export const streamOf = (name: string): 'events' | '$errors' | '$logs' =>
  name === '$errors' || name === '$logs' ? name : 'events';

/** Whether an event of this channel is still retained. @param eventId `<ms>-<n>` */
export async function eventExists(
  store: Store,
  emitterId: string,
  name: string,
  eventId: string,
): Promise<boolean> {
  const id = parseEventId(eventId);
  if (!id) return false;
  const sort_key = eventSortKey(id);
  const stream = streamOf(name);
  if (stream !== '$logs') {
    return (await store.collection(events).count({ id: `${emitterId}/${stream}/${sort_key}` }, 1)) === 1;
  }
  const [row] = await store.collection(logs).list({
    where: { emitter_id: emitterId, sort_key: { lte: sort_key } },
    orderBy: 'sort_key',
    limit: 1,
    texts: false,
  });
  const first = row && parseEventId(eventIdOfSortKey(row.sort_key))!;
  return first !== undefined && first.ms === id.ms && id.n < first.n + row!.count;
}
