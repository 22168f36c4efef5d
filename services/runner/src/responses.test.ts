import { describe, expect, test } from '@jest/globals';
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
  async function ask(body: string): Promise<HttpReply | undefined> {
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
    await t.trigger(id, { kind: 'http', request }, { reply_to: replies.address });
    return (await replies.receive(10_000)) as HttpReply | undefined;
  }

  test('gets the reply before the run ends', async () => {
    const reply = await ask(
      `this.http.respond({ status: 201, body: event.body }); await new Promise((r) => setTimeout(r, 1500)); this.$emit('end');`,
    );
    expect(reply).toEqual({
      kind: 'response',
      status: 201,
      headers: {},
      body: Buffer.from('hi').toString('base64'),
    });
    expect(t.publishedPayloads()).toEqual([]);
  });

  test.each([
    ['', 'none'],
    ['throw new Error("no")', 'failed'],
    ['this.http.respond({ status: 99 })', 'failed'],
    ['process.exit(1)', 'failed'],
  ])('learns the end of a run that gives none: %s', async (body, kind) => {
    expect(await ask(body)).toEqual({ kind });
  });
});
