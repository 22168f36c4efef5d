import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { eventually } from './eventually.ts';
import { type Platform, startPlatform } from './platform.ts';
import { type TempDir, tempDir } from './temp-dir.ts';
import { createWebhookSink, type WebhookSink } from './webhook-sink.ts';

let dir: TempDir;
let platform: Platform;
let sink: WebhookSink;

beforeAll(async () => {
  dir = await tempDir();
  sink = await createWebhookSink();
  platform = await startPlatform({ dataDir: dir.path });
});
afterAll(async () => {
  await platform?.end('SIGKILL');
  await sink?.close();
  await dir?.remove();
});

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
  const { endpoint_url } = source.configured_props.http as { endpoint_url: string };
  await fetch(endpoint_url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(Array.from({ length: COUNT }, (_, n) => n)),
  });
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
  const all = Array.from({ length: COUNT }, (_, n) => String(n)).sort();
  await eventually(async () => (await list('$in')).length === 0, { ms: 90_000, every: 100 });
  await eventually(() => new Set(sink.requests.map(({ text }) => text)).size === COUNT, { ms: 90_000 });
  expect((await list('')).map(({ event }) => String(event)).sort()).toEqual(all);
  // A delivery may be repeated, under the same webhook-id.
  expect(new Set(sink.requests.map(({ text }) => text)).size).toBe(COUNT);
  expect(new Set(sink.requests.map(({ headers }) => headers['webhook-id'])).size).toBe(COUNT);
}, 240_000);
