import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { secretKey, signatures } from '@wellspring/core/webhook-signature';
import { LOOKUP_THREADS } from '@wellspring/http/egress';
import { eventually } from './eventually.ts';
import { dataDir, endpointOf, platform, post, sink, usePlatform } from './platform.fixture.ts';
import { startPlatform } from './platform.ts';

/** The quick start, through the real process. */

usePlatform({ ownGroup: true });

const CODE = `export default {
  name: 'Orders',
  props: { http: '$.interface.http', db: '$.service.db' },
  run(event) {
    const seen = (this.db.get('seen') ?? 0) + 1;
    this.db.set('seen', seen);
    this.$emit({ order: event.body.order, seen }, { name: event.body.channel, summary: 'order ' + event.body.order });
  },
};`;

async function order(endpoint: string, body: object): Promise<void> {
  expect((await post(endpoint, body)).status).toBe(200);
}

test('a deployed source delivers signed events, streams and lists them, also after a restart', async () => {
  const { client } = platform;
  const source = await client.createSource({ component_code: CODE });
  const webhook = await client.createWebhook({ url: `${sink.url}/hook` });
  await client.createSubscription({ emitter_id: source.id, listener_id: webhook.id });
  await client.createSubscription({ emitter_id: source.id, listener_id: webhook.id, event_name: 'big' });
  const endpoint = endpointOf(source);
  const stream = await client.streamSource({ id: source.id });

  await order(endpoint, { order: 'ä-1' });
  const first = await sink.request(({ text }) => text === '{"order":"ä-1","seen":1}');
  expect(first).toMatchObject({
    method: 'POST',
    path: '/hook',
    headers: {
      'content-type': 'application/json',
      'x-wellspring-emitter-id': source.id,
      'x-wellspring-event-name': '',
      'x-wellspring-delivery-attempt': '1',
    },
  });
  const { 'webhook-id': id, 'webhook-timestamp': timestamp } = first.headers;
  expect(first.headers['webhook-signature']).toBe(
    signatures([secretKey(webhook.secret)], String(id), Number(timestamp), first.text),
  );
  const { value: streamed } = await stream.next();
  expect(streamed).toMatchObject({
    id: first.headers['x-wellspring-event-id'],
    event: { order: 'ä-1', seen: 1 },
    metadata: { emitter_id: source.id, name: '', summary: 'order ä-1' },
  });

  expect(await platform.end('SIGTERM')).toBe(0);
  platform.spawn();
  await platform.ready();

  await order(endpoint, { order: 2, channel: 'big' });
  const second = await sink.request(({ text }) => text === '{"order":2,"seen":2}');
  expect(second.headers['x-wellspring-event-name']).toBe('big');
  // The client resumed the stream after the last record.
  expect((await stream.next()).value).toMatchObject({ event: { order: 2, seen: 2 } });
  await stream.return?.();

  const list = await client.listSourceEvents({ id: source.id });
  expect(list.data.map(({ event }) => event)).toEqual([
    { order: 2, seen: 2 },
    { order: 'ä-1', seen: 1 },
  ]);
  await eventually(async () => {
    const { data } = await client.listWebhookDeliveries({ id: webhook.id });
    expect(data.map(({ status, attempts }) => [status, attempts])).toEqual([
      ['delivered', 1],
      ['delivered', 1],
    ]);
  });
  expect(sink.requests).toHaveLength(2);
}, 120_000);

test('Ctrl-C, which reaches the whole process group, lets running code finish', async () => {
  const { client } = platform;
  const source = await client.createSource({
    component_code: `export default {
      name: 'Slow',
      props: { http: { type: '$.interface.http', customResponse: true } },
      async run() {
        this.http.respond({ status: 200, body: 'begun' });
        await new Promise((resolve) => setTimeout(resolve, 700));
        this.$emit('finished');
      },
    };`,
  });
  // The response comes while the run goes on.
  expect((await post(endpointOf(source), {})).text).toBe('begun');
  expect(await platform.end('SIGINT', true)).toBe(0);
  platform.spawn();
  await platform.ready();
  expect((await client.listSourceErrors({ id: source.id })).data).toEqual([]);
  expect((await client.listSourceEvents({ id: source.id })).data).toMatchObject([{ event: 'finished' }]);
}, 120_000);

test('a second platform on the same data directory is refused, the first continues', async () => {
  await expect(startPlatform({ dataDir })).rejects.toThrow(/data directory|in use|another/i);
  expect(await platform.client.getMe()).toMatchObject({ username: 'admin' });
}, 120_000);

test('code in a source can neither reach the platform nor see its data', async () => {
  const { client } = platform;
  const probe = await client.createSource({
    component_code: `import { readdirSync } from 'node:fs';
      import { connect } from 'node:net';
      export default {
        name: 'Probe',
        props: { http: { type: '$.interface.http', customResponse: true } },
        async run({ body }) {
          const attempt = async (look) => { try { return await look(); } catch (error) { return error.code ?? error.message; } };
          const reach = () => new Promise((resolve, reject) => {
            connect(body.port, '127.0.0.1').once('connect', () => resolve('connected')).once('error', reject);
          });
          const found = { file: await attempt(() => readdirSync(body.dir)), socket: await attempt(reach), keys: Object.keys(process.env).filter((name) => name.startsWith('WELLSPRING')) };
          this.http.respond({ status: 200, body: found });
        },
      };`,
  });
  const port = Number(new URL(platform.url).port);
  const { json: found } = await post(endpointOf(probe), { dir: dataDir, port });
  expect(found.file).toEqual(expect.any(String));
  expect(found.socket).not.toBe('connected');
  expect(found.keys).toEqual([]);
});

test('the process has threads for look-ups of slow name servers', () => {
  const tasks = `/proc/${platform.pid}/task`;
  const names = readdirSync(tasks).map((task) => readFileSync(`${tasks}/${task}/comm`, 'utf8').trim());
  expect(names.filter((name) => name === 'libuv-worker')).toHaveLength(LOOKUP_THREADS);
});
