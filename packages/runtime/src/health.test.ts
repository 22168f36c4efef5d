import { expect, test } from '@jest/globals';
import { send, startHttpServer } from '@wellspring/testing/http';
import type { Deps } from './deps.ts';
import { createHealthListener } from './health.ts';

/** Asks a process in which these dependencies do not answer. */
async function ask(path: string, away: readonly string[], method = 'GET') {
  const one = (name: string) => ({
    ping: async () => {
      if (away.includes(name)) throw new Error('away');
    },
  });
  const deps = Object.fromEntries(
    ['store', 'queue', 'pubsub', 'call', 'blob'].map((name) => [name, one(name)]),
  ) as unknown as Deps;
  const listener = createHealthListener(deps, { isDraining: () => false });
  await using server = await startHttpServer((req, res) => void listener(req, res));
  const { status, headers, json: body } = await send(server.port, method, path);
  return { status, headers, body };
}
async function readyWithout(...away: string[]): Promise<{ status: number; body: unknown }> {
  const { status, body } = await ask('/ready', away);
  return { status, body };
}

test('a process is ready when everything answers', async () => {
  expect(await readyWithout()).toEqual({ status: 200, body: { status: 'ready' } });
});

test.each(['store', 'queue', 'call'])(
  'without its %s the process is not ready and names it',
  async (name) => {
    expect(await readyWithout(name, 'pubsub')).toEqual({
      status: 503,
      body: { status: 'not ready', failing: expect.arrayContaining([name, 'pubsub']) },
    });
  },
);

test('without wake-ups or files it is ready, if degraded: else one server would take all processes out', async () => {
  for (const degraded of [['pubsub'], ['blob'], ['pubsub', 'blob']])
    expect(await readyWithout(...degraded)).toEqual({ status: 200, body: { status: 'ready', degraded } });
});

test.each(['/health', '/ready'])(
  '%s tells other methods that only GET is allowed, as the API does',
  async (path) => {
    const { status, headers, body } = await ask(path, [], 'POST');
    expect([status, headers.allow]).toEqual([405, 'GET, HEAD']);
    expect(body).toEqual({
      error: expect.any(String),
      code: 'method_not_allowed',
      request_id: headers['x-request-id'],
    });
  },
);
