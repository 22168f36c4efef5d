import { beforeAll, expect, test } from '@jest/globals';
import { forSuite } from '@wellspring/testing/lifetimes';
import { startGateway } from './platform.fixture.ts';

const ORIGIN = 'https://app.example.com';
const PREFLIGHT = {
  'access-control-request-method': 'POST',
  'access-control-request-headers': 'authorization',
};

const platform = forSuite(() =>
  startGateway({ config: { corsOrigins: [ORIGIN, 'https://other.example.com'] } }),
);
let key: string;
beforeAll(async () => {
  key = (await platform.user()).key;
});

test('a page of a listed origin may call the API with a key and read its headers', async () => {
  const preflight = await platform.call('OPTIONS', '/v1/sources', {
    headers: { origin: ORIGIN, ...PREFLIGHT },
  });
  expect(preflight.status).toBe(204);
  expect(preflight.headers).toMatchObject({
    'access-control-allow-origin': ORIGIN,
    'access-control-allow-methods': expect.stringContaining('DELETE'),
    'access-control-allow-headers': expect.stringContaining('authorization'),
  });
  const answer = await platform.api('GET', '/users/me', { key, headers: { origin: ORIGIN } });
  expect(answer.status).toBe(200);
  expect(answer.headers).toMatchObject({
    'access-control-allow-origin': ORIGIN,
    'access-control-expose-headers': expect.stringContaining('x-request-id'),
    vary: expect.stringContaining('Origin'),
  });
});

test('errors can be read by the page, too', async () => {
  const answer = await platform.api('GET', '/users/me', { key: null, headers: { origin: ORIGIN } });
  expect([answer.status, answer.headers['access-control-allow-origin']]).toEqual([401, ORIGIN]);
});

test('cookies are never allowed', async () => {
  const answer = await platform.api('GET', '/users/me', { key, headers: { origin: ORIGIN } });
  expect(answer.headers).not.toHaveProperty('access-control-allow-credentials');
});

test.each(['https://evil.example.com', 'https://app.example.com.evil.com', 'http://app.example.com', 'null'])(
  'the origin %s is not allowed',
  async (origin) => {
    for (const [method, headers] of [
      ['OPTIONS', PREFLIGHT],
      ['GET', {}],
    ] as const) {
      const answer = await platform.call(method, '/v1/users/me', { headers: { origin, ...headers } });
      expect(answer.headers).not.toHaveProperty('access-control-allow-origin');
    }
  },
);

test('endpoints of sources keep their own headers', async () => {
  const endpoint = await platform.endpoint();
  const answer = await platform.call('POST', `/e/${endpoint.id}`, { headers: { origin: ORIGIN } });
  expect(answer.headers['access-control-allow-origin']).toBe('*');
});

test('without origins in the configuration, no page is allowed', async () => {
  await using closed = await startGateway();
  const answer = await closed.call('OPTIONS', '/v1/sources', { headers: { origin: ORIGIN, ...PREFLIGHT } });
  expect(answer.status).not.toBe(204);
  expect(answer.headers).not.toHaveProperty('access-control-allow-origin');
});

test('with *, every page is allowed', async () => {
  await using open = await startGateway({ config: { corsOrigins: ['*'] } });
  const answer = await open.call('GET', '/v1/users/me', { headers: { origin: ORIGIN } });
  expect(answer.headers['access-control-allow-origin']).toBe('*');
});
