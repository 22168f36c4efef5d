import { eventSortKey, parseEventId, parseSortKey } from '@wellspring/core/event-id';
import type { Store } from '../port.ts';
import { events, logs, recordsOf } from './events.ts';

/** The stream of a channel. */
export const streamOf = (name: string): 'events' | '$errors' | '$logs' =>
  name === '$errors' || name === '$logs' ? name : 'events';

/** The payload of an event of this channel, as its listeners got it; undefined if not retained. @param eventId `<ms>-<n>` */
export async function payloadOfEvent(
  store: Store,
  emitterId: string,
  name: string,
  eventId: string,
): Promise<string | undefined> {
  const id = parseEventId(eventId);
  if (!id) return undefined;
  const sort_key = eventSortKey(id);
  const stream = streamOf(name);
  if (stream !== '$logs') {
    return (await store.collection(events).get(`${emitterId}/${stream}/${sort_key}`))?.payload;
  }
  const [row] = await store.collection(logs).list({
    where: { emitter_id: emitterId, sort_key: { lte: sort_key } },
    orderBy: 'sort_key',
    limit: 1,
  });
  const first = row && parseSortKey(row.sort_key);
  if (first?.ms !== id.ms) return undefined;
  const record = recordsOf(row!)[id.n - first.n];
  return record === undefined ? undefined : JSON.stringify(record);
}
