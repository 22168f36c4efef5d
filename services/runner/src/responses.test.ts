import { expect, test } from '@jest/globals';
import type { Trigger } from '@wellspring/contract/messages';
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
  await t.trigger(id, called({ 'x-custom': '1' }));
  await t.quiet();
  const warnings = (await t.logs(id)).filter(({ level }) => level === 'warn');
  expect(warnings).toHaveLength(1);
  expect(warnings[0]!.msg).toMatch(/^The response was sent without alt-svc, set-cookie: at this address/);
});
