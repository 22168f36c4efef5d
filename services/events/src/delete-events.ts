import { deleteSourceEvents } from '@wellspring/contract/endpoints/events';
import { eventSortKey, parseEventId } from '@wellspring/core/event-id';
import { invalidParameter } from '@wellspring/core/problem';
import { type Route, route } from '@wellspring/http/bind';
import type { Deps } from '@wellspring/runtime/deps';
import { assertReadableSource } from './access.ts';
import { deleteRange } from './delete-range.ts';

/** The sort key of an event id in a parameter. @throws Problem 400 */
export function keyOfId(param: string, text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const id = parseEventId(text);
  if (!id) throw invalidParameter(param, `${param} must be the id of an event, <ms>-<n>.`);
  return eventSortKey(id);
}

/** Responds after the rows are deleted. */
export function deleteRoutes({ store }: Pick<Deps, 'store'>): Route[] {
  return [
    route(deleteSourceEvents, async ({ principal, params, input }) => {
      const start = keyOfId('start_id', input.start_id);
      const end = keyOfId('end_id', input.end_id);
      await assertReadableSource(store, principal, params.id);
      await deleteRange(store, params.id, input.event_name, start, end);
    }),
  ];
}
