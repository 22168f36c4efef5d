import type { InputOf } from '@wellspring/contract/endpoint';
import type { listWebhookDeliveries } from '@wellspring/contract/endpoints/webhooks';
import { leastIdAt } from '@wellspring/core/ids';
import { listPage } from '@wellspring/http/paging';
import { type DeliveryRow, deliveries } from '@wellspring/store/collections/webhooks';
import type { ListOptions, Store } from '@wellspring/store/port';
import { parseTime } from './time.ts';

type Input = InputOf<typeof listWebhookDeliveries>;

/** Deliveries that a filter looks at: an index for each filter would slow down every delivery. */
const SEARCHED = 1_000;
/** A webhook may have many millions, of which each takes time to count. */
const MAX_COUNTED = 10_000;

/** One page of the deliveries of a webhook that match, without payloads and logs. */
export async function findDeliveries(store: Store, webhookId: string, input: Input) {
  const rows = store.collection(deliveries);
  const { status, event_id, emitter_id, since, until } = input;
  if ([status, event_id, emitter_id, since, until].every((filter) => filter === undefined)) {
    return listPage(
      {
        list: (options: ListOptions<DeliveryRow>) => rows.list({ ...options, texts: false }),
        count: (where: { webhook_id: string }) => rows.count(where, MAX_COUNTED),
      },
      { webhook_id: webhookId },
      input,
    );
  }
  const range = {
    ...(since !== undefined && { gte: leastIdAt('dlv', parseTime('since', since)) }),
    ...(until !== undefined && { lt: leastIdAt('dlv', parseTime('until', until)) }),
  };
  const newest = await rows.list({
    where: { webhook_id: webhookId, ...(Object.keys(range).length > 0 && { id: range }) },
    limit: SEARCHED,
    texts: false,
  });
  const wanted: Partial<DeliveryRow> = {
    ...(status !== undefined && { status }),
    ...(event_id !== undefined && { event_id }),
    ...(emitter_id !== undefined && { emitter_id }),
  };
  const found = newest.filter((row) =>
    Object.entries(wanted).every(([field, value]) => row[field as keyof DeliveryRow] === value),
  );
  return listPage(inMemory(found), {}, input);
}

/** Rows, newest first, as listPage reads them. */
const inMemory = (rows: readonly DeliveryRow[]) => ({
  async list({ where, order, limit }: { where: object; order: 'asc' | 'desc'; limit: number }) {
    const { gt, lt } = (where as { id?: { gt?: string; lt?: string } }).id ?? {};
    const bounded = rows.filter(({ id }) => (gt === undefined || id > gt) && (lt === undefined || id < lt));
    return (order === 'asc' ? bounded.toReversed() : bounded).slice(0, limit);
  },
  count: async () => rows.length,
});
