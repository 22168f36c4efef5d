import { expect, test } from '@jest/globals';
import { startHttpServer } from '@wellspring/testing/http';
import type { Deps } from './deps.ts';
import { createHealthListener } from './health.ts';

/** `/ready` of a process in which these dependencies do not answer. */
async function readyWithout(...away: string[]): Promise<{ status: number; body: unknown }> {
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
  const answer = await fetch(`${server.url}/ready`);
  return { status: answer.status, body: await answer.json() };
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
