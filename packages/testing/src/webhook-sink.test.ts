import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { createWebhookSink, type WebhookSink } from './webhook-sink.ts';

let sink: WebhookSink;
beforeEach(async () => {
  sink = await createWebhookSink();
});
afterEach(() => sink.close());

const post = (body: string, path = '') => fetch(sink.url + path, { method: 'POST', body });

test('records requests byte for byte, with path and headers', async () => {
  const waiting = sink.request(({ path }) => path === '/a?b=1');
  expect((await post('é\u0000x', '/a?b=1')).status).toBe(200);
  const request = await waiting;
  expect(request).toMatchObject({ method: 'POST', text: 'é\u0000x' });
  expect(request.headers['content-type']).toMatch(/^text\/plain/);
});

test('scripted responses are used once each, then the default', async () => {
  sink.answer({ status: 202 });
  sink.script({ status: 503, headers: { 'retry-after': '7' }, body: 'later' }, 'drop', ({ text }) => ({
    body: text,
  }));
  const first = await post('1');
  expect([first.status, first.headers.get('retry-after'), await first.text()]).toEqual([503, '7', 'later']);
  await expect(post('2')).rejects.toThrow();
  expect(await (await post('3')).text()).toBe('3');
  expect((await post('4')).status).toBe(202);
  expect((await sink.received(4)).map(({ text }) => text)).toEqual(['1', '2', '3', '4']);
});

test('a wait that times out lists the requests that arrived', async () => {
  await post('1');
  await expect(sink.received(2, 20)).rejects.toThrow('1 of 2 requests arrived within 20 ms');
  await expect(sink.request(() => false, 20)).rejects.toThrow('none of 1 requests matched');
});

test('close ends pending requests', async () => {
  sink.answer(() => new Promise(() => {}));
  const held = post('x');
  await sink.received(1);
  await sink.close();
  await expect(held).rejects.toThrow();
});
