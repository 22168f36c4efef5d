import { describe, expect, test } from '@jest/globals';
import { CALLS, type CancelCall } from '@wellspring/contract/calls';
import type { HttpReply, Trigger } from '@wellspring/contract/messages';
import { usePlatform } from './platform.fixture.ts';

const t = usePlatform();

const CODE = `export default { name: 'Reply', props: { http: { type: '$.interface.http', customResponse: true } },
  run(event) { this.http.respond({ status: 200, headers: event.body }); } };`;

const called = (headers: Record<string, string>): Trigger => ({
  kind: 'http',
  request: {
    method: 'POST',
    path: '/',
    query: '',
    headers: { host: 'localhost', 'content-type': 'application/json' },
    url: 'http://localhost/e/x',
    client_ip: '127.0.0.1',
    text: JSON.stringify(headers),
  },
});

test('the log of a run names each removed response header once', async () => {
  const id = await t.deploy(CODE);
  await t.trigger(id, called({ 'Set-Cookie': 'a=1', 'Alt-Svc': 'clear', 'x-custom': '1' }));
  await t.triggerToEnd(id, called({ 'x-custom': '1' }));
  const warnings = (await t.logs(id)).filter(({ level }) => level === 'warn');
  expect(warnings).toHaveLength(1);
  expect(warnings[0]!.msg).toMatch(/^The response was sent without alt-svc, set-cookie: at this address/);
});

describe('a caller that waits', () => {
  const answering = (body: string) =>
    `export default { name: 'Answering', props: { http: { type: '$.interface.http', customResponse: true } },
      async run(event) { ${body} } };`;
  async function ask(body: string) {
    const id = await t.deploy(answering(body));
    const replies = t.call.openReplyAddress();
    const request = {
      method: 'POST',
      path: '/',
      query: '',
      headers: {},
      url: 'u',
      client_ip: 'c',
      text: 'hi',
    };
    const run_id = await t.trigger(id, { kind: 'http', request }, { reply_to: replies.address });
    return { id, run_id, reply: (await replies.receive(10_000)) as HttpReply | undefined };
  }

  test('gets the reply before the run ends', async () => {
    const { id, run_id, reply } = await ask(
      `this.$emit('early'); this.http.respond({ status: 201, body: event.body }); await new Promise(() => setInterval(() => {}, 1000));`,
    );
    expect(reply).toEqual({
      kind: 'response',
      status: 201,
      headers: {},
      body: Buffer.from('hi').toString('base64'),
    });
    expect(t.publishedPayloads()).toEqual([]);
    const message: CancelCall['message'] = { source_id: id, run_id };
    const cancelled = await t.call.request(CALLS.cancel, message, { key: id, deadlineMs: 10_000 });
    expect(cancelled).toEqual({ found: true });
  });

  test.each([
    ['', 'none'],
    ['throw new Error("no")', 'failed'],
    ['this.http.respond({ status: 99 })', 'failed'],
    ['process.exit(1)', 'failed'],
  ])('learns the end of a run that gives none: %s', async (body, kind) => {
    expect((await ask(body)).reply).toEqual({ kind });
  });
});
