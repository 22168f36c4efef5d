import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { endpoints } from '@wellspring/store/collections/sources';
import { webhooks } from '@wellspring/store/collections/webhooks';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { endpointRow, webhookRow } from '@wellspring/testing/rows';
import { openPorts, type Ports } from '@wellspring/testing/service-harness';
import { createFindEndpoint } from './find-endpoint.ts';

const ROW = endpointRow({ id: 'e_1', source_id: 'dc_1', owner_id: 'u_1' });

let ports: Ports;
let find: ReturnType<typeof createFindEndpoint>;
let reads: number;
beforeEach(() => {
  const clock = createFakeClock();
  ports = openPorts({ clock });
  reads = 0;
  const { get } = rows();
  rows().get = (id) => {
    reads += 1;
    return get(id);
  };
  find = createFindEndpoint({ store: ports.store, clock });
});
afterEach(() => ports.close());

const rows = () => ports.store.collection(endpoints);
const concurrency = async () => (await find('e_1'))?.concurrency;

test('a change of an endpoint, also by another process, takes effect at once', async () => {
  await rows().insert(ROW);
  expect(await concurrency()).toBe(1);
  await rows().patch('e_1', { concurrency: 5 });
  expect(await concurrency()).toBe(5);
  await rows().patch('e_1', { active: false });
  expect(await find('e_1')).toBeUndefined();
  await rows().patch('e_1', { active: true });
  expect(await concurrency()).toBe(5);
  await rows().removeWhere({ source_id: 'dc_1' });
  expect(await find('e_1')).toBeUndefined();
});

test('an endpoint that is read while it changes is read again', async () => {
  await rows().insert(ROW);
  const early = find('e_1');
  await rows().patch('e_1', { concurrency: 5 });
  await early;
  expect(await concurrency()).toBe(5);
});

test('an active endpoint is read again only after a change', async () => {
  await rows().insert(ROW);
  for (const _ of [1, 2, 3]) await find('e_1');
  expect(reads).toBe(1);
  await ports.store.collection(webhooks).insert(webhookRow());
  for (const _ of [1, 2, 3]) await find('e_1');
  expect(reads).toBe(2);
});
