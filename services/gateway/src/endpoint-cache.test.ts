import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { endpoints } from '@wellspring/store/collections/sources';
import { createFakeClock, type FakeClock } from '@wellspring/testing/fake-clock';
import { endpointRow } from '@wellspring/testing/rows';
import { openPorts, type Ports } from '@wellspring/testing/service-harness';
import { createEndpointCache, type EndpointCache } from './endpoint-cache.ts';

const ROW = endpointRow({ id: 'e_1', source_id: 'dc_1', owner_id: 'u_1' });

let clock: FakeClock;
let ports: Ports;
let cache: EndpointCache;
beforeEach(() => {
  clock = createFakeClock();
  ports = openPorts({ clock });
  cache = createEndpointCache({ store: ports.store, clock });
});
afterEach(() => ports.close());

const rows = () => ports.store.collection(endpoints);
const concurrency = async () => (await cache.find('e_1'))?.concurrency;

test('a change made elsewhere takes effect after 100 ms', async () => {
  await rows().insert(ROW);
  expect(await concurrency()).toBe(1);
  await rows().patch('e_1', { concurrency: 5 });
  expect(await concurrency()).toBe(1);
  await clock.advance(100);
  expect(await concurrency()).toBe(5);
});

test('a new or newly active endpoint is found at once', async () => {
  expect(await cache.find('e_1')).toBeUndefined();
  await rows().insert({ ...ROW, active: false });
  expect(await cache.find('e_1')).toBeUndefined();
  await rows().patch('e_1', { active: true });
  expect(await concurrency()).toBe(1);
});

test('a change requested through this process takes effect at once', async () => {
  await rows().insert(ROW);
  await cache.find('e_1');
  const res = new EventEmitter() as unknown as ServerResponse;
  cache.suspendDuring({ method: 'DELETE' } as IncomingMessage, res);
  expect(await concurrency()).toBe(1);
  // Read before the change, and answered after it.
  const early = cache.find('e_1');
  await rows().remove('e_1');
  await early;
  expect(await cache.find('e_1')).toBeUndefined();
  res.emit('close');
  expect(await cache.find('e_1')).toBeUndefined();
});
