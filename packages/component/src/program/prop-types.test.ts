import { expect, test } from '@jest/globals';
import { startHttpServer } from '@wellspring/testing/http';
import { run, said } from './program.fixture.ts';

// biome-ignore lint/suspicious/noExplicitAny: `this` of a component
type Any = any;

test('an app prop has the credentials of its account, a copy for each run', async () => {
  const app = {
    type: 'app',
    app: 'github',
    methods: {
      header(this: Any) {
        return `token ${this.$auth.token}`;
      },
    },
  };
  const seen: unknown[] = [];
  const body = (self: Any) => {
    seen.push(self.one.header(), self.two.header(), self.two.$auth);
    self.one.$auth.token = 'changed';
  };
  const instance = { accounts: { one: { token: 'first' } } };
  for (let i = 0; i < 2; i++) await run(body, instance, { props: { one: app, two: app } });
  expect(seen).toEqual(['token first', 'token undefined', {}, 'token first', 'token undefined', {}]);
});

test('values with their labels reach the code as labels and values, in lists too', async () => {
  const labelled = { label: 'A', value: 1 };
  const seen: unknown[] = [];
  await run(
    (self: Any) => seen.push(self.one, self.all, self.each),
    {
      values: { one: { __lv: labelled }, all: { __lv: [labelled] }, each: [{ __lv: labelled }, 2] },
    },
    { props: { one: 'string', all: 'string[]', each: 'any' } },
  );
  expect(seen).toEqual([labelled, [labelled], [labelled, 2]]);
});

test('a data store keeps values by key in $service.db, apart from other stores', async () => {
  const seen: unknown[] = [];
  await run(
    async ({ store, same, other }: Any) => {
      await store.set('a', { n: 1 });
      await store.set('b', 2);
      seen.push(await same.get('a'), await other.has('a'), await store.keys(), await store.size());
      seen.push(await store.delete('a'), await store.delete('a'), await store.entries());
      await store.clear();
      seen.push(await store.size(), await store.get('b'));
    },
    { values: { store: 'orders', same: 'orders' }, db: { 'data_store/other/x': '1' } },
    { props: { store: 'data_store', same: 'data_store', other: 'data_store' } },
  );
  expect(seen).toEqual([{ n: 1 }, false, ['a', 'b'], 2, true, false, [['b', 2]], 0, undefined]);
  expect(said.sets).toContainEqual(['data_store/orders/b', '2']);
});

test('an http_request prop sends the configured request', async () => {
  await using server = await startHttpServer((req, res) => {
    let body = '';
    req.on('data', (chunk) => {
      body += chunk;
    });
    req.on('end', () => {
      const { method, url, headers } = req;
      res.writeHead(url?.startsWith('/missing') ? 404 : 200, { 'content-type': 'application/json' });
      res.end(
        JSON.stringify([method, url, headers.authorization, headers['x-one'], headers['content-type'], body]),
      );
    });
  });
  const send = async (value: object) => {
    let answer: Any;
    await run(
      async (self: Any) => {
        answer = await self.request.execute().catch(({ response }: Any) => response);
      },
      { values: { request: value } },
      { props: { request: 'http_request' } },
    );
    return [answer.status, answer.data];
  };
  expect(
    await send({
      method: 'POST',
      url: `${server.url}/path?a=1`,
      auth: { type: 'basic', username: 'u', password: 'p' },
      params: [
        { name: 'b', value: 'x y' },
        { name: 'off', value: '1', disabled: true },
      ],
      headers: [{ name: 'X-One', value: '1' }],
      body: { contentType: 'application/json', mode: 'fields', fields: [{ name: 'k', value: 'v' }] },
    }),
  ).toEqual([200, ['POST', '/path?a=1&b=x+y', 'Basic dTpw', '1', 'application/json', '{"k":"v"}']]);
  const raw = { contentType: 'text/plain', mode: 'raw', raw: 'text' };
  expect(
    await send({
      method: 'put',
      url: `${server.url}/missing`,
      auth: { type: 'bearer', token: 't' },
      body: raw,
    }),
  ).toEqual([404, ['PUT', '/missing', 'Bearer t', null, 'text/plain', 'text']]);
});
