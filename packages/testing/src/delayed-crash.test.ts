import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { eventually } from './eventually.ts';
import { endpointOf, platform, post, sink, usePlatform } from './platform.fixture.ts';

usePlatform();

const COUNT = 90;
const CRASHES = 5;
const CODE = `export default { name: 'Delaying', props: { http: '$.interface.http' }, run({ body }) {
  for (const n of body) this.$emit(n, { id: n, delivery_ts: Date.now() + 1000 + 60 * n });
} };`;

test('delayed events become events once, over crashes while they are due', async () => {
  const { client } = platform;
  const source = await client.createSource({ component_code: CODE });
  const webhook = await client.createWebhook({ url: sink.url });
  await client.createSubscription({ emitter_id: source.id, listener_id: webhook.id });
  const numbers = Array.from({ length: COUNT }, (_, n) => n);
  await post(endpointOf(source), numbers);
  const list = async (event_name: string) =>
    (await client.listSourceEvents({ id: source.id, event_name, limit: 100 })).data;
  await eventually(async () => (await list('$in')).length > 0);
  for (let crashes = 0; crashes < CRASHES; crashes++) {
    // A random moment, not a wait for a condition.
    await pause(Math.random() * 700);
    await platform.end('SIGKILL');
    platform.spawn();
    await platform.ready();
  }
  await eventually(async () => (await list('$in')).length === 0, { ms: 90_000, every: 100 });
  await eventually(() => new Set(sink.requests.map(({ text }) => text)).size === COUNT, { ms: 90_000 });
  expect((await list('')).map(({ event }) => String(event)).sort()).toEqual(numbers.map(String).sort());
  // A delivery may be repeated, under the same webhook-id.
  expect(new Set(sink.requests.map(({ text }) => text)).size).toBe(COUNT);
  expect(new Set(sink.requests.map(({ headers }) => headers['webhook-id'])).size).toBe(COUNT);
}, 240_000);
