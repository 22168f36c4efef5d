import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { eventually } from './eventually.ts';
import { freePort } from './free-port.ts';
import { endpointOf, platform, post, usePlatform } from './platform.fixture.ts';

/** Runs the examples as their README says, except the feed, which needs a package registry. */

const example = (path: string) => new URL(`../../../examples/${path}`, import.meta.url);

let port: number;
let receiver: ChildProcess | undefined;

usePlatform();
beforeAll(async () => {
  port = await freePort();
});

afterAll(async () => {
  if (receiver?.exitCode !== null) return;
  receiver.kill();
  await once(receiver, 'exit');
});

async function deploy(name: string, configured_props: object) {
  const component_code = await readFile(example(`sources/${name}.mjs`), 'utf8');
  return platform.client.createSource({ component_code, configured_props: configured_props as never });
}

/** The receiver of the examples, and what it has printed. */
async function startReceiver(secret: string): Promise<() => string> {
  let printed = '';
  receiver = spawn(process.execPath, [example('receiver.mjs').pathname, String(port), secret], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  receiver.stdout!.setEncoding('utf8').on('data', (text: string) => {
    printed += text;
  });
  await eventually(() => printed.includes('Receiving'));
  return () => printed;
}

test('orders are answered, emitted once on their channel, and delivered with a valid signature', async () => {
  const { client } = platform;
  const source = await deploy('orders', { limit: 100 });
  const webhook = await client.createWebhook({ url: `http://127.0.0.1:${port}/` });
  for (const event_name of ['', 'big']) {
    await client.createSubscription({ emitter_id: source.id, listener_id: webhook.id, event_name });
  }
  const printed = await startReceiver(webhook.secret);
  const order = async (body: object) => {
    const { status, json } = await post(endpointOf(source), body);
    return [status, json];
  };
  expect(await order({ order: '1001', total: 25 })).toEqual([202, { received: 1 }]);
  expect(await order({ order: '1002', total: 2500 })).toEqual([202, { received: 2 }]);
  expect(await order({ order: '1002', total: 2500 })).toEqual([202, { received: 3 }]);
  expect(await order({ total: 1 })).toEqual([422, { error: 'order is missing' }]);
  const { data } = await client.listSourceEvents({ id: source.id });
  expect(data.map(({ metadata, event }) => [metadata.name, event])).toEqual([
    ['big', { order: '1002', total: 2500 }],
    ['', { order: '1002', total: 2500 }],
    ['', { order: '1001', total: 25 }],
  ]);
  await eventually(() => printed().match(/signature verified: /g)?.length === 3);
  expect(printed()).not.toContain('FORGED');
});

test('the receiver refuses a signature with another secret', async () => {
  const forged = await fetch(`http://127.0.0.1:${port}/`, {
    method: 'POST',
    headers: {
      'webhook-id': 'dlv_x',
      'webhook-timestamp': String(Math.floor(Date.now() / 1000)),
      'webhook-signature': `v1,${Buffer.alloc(32).toString('base64')}`,
    },
    body: '{}',
  });
  expect(forged.status).toBe(401);
});

test('the clock ticks on schedule and by hand', async () => {
  const source = await deploy('clock', { timer: { cron: '0 0 1 1 *', timezone: 'Europe/Berlin' } });
  expect(source.configured_props.timer).toMatchObject({ cron: '0 0 1 1 *', interval_seconds: null });
  await platform.client.runSource({ id: source.id, event: { timestamp: 0 } });
  await eventually(async () => {
    const { data } = await platform.client.listSourceEvents({ id: source.id });
    expect(data.map(({ event }) => event)).toEqual([{ tick: '1970-01-01T00:00:00.000Z' }]);
  });
});
