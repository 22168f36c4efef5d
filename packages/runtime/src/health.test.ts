import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from '@jest/globals';
import { systemClock } from '@wellspring/core/clock';
import type { Deps } from './deps.ts';
import { createHealthListener } from './health.ts';

let server: Server | undefined;
afterEach(async () => {
  server?.closeAllConnections();
  await new Promise((resolve) => server?.close(resolve));
});

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
  const listener = createHealthListener({ ...deps, clock: systemClock }, { isDraining: () => false });
  server = createServer((req, res) => void listener(req, res));
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve));
  const answer = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/ready`);
  return { status: answer.status, body: await answer.json() };
}

test('a process is ready when everything answers', async () => {
  expect(await readyWithout()).toEqual({ status: 200, body: { status: 'ready' } });
});

test.each(['store', 'queue', 'call', 'blob'])('without its %s it is not ready, and says so', async (name) => {
  expect(await readyWithout(name, 'pubsub')).toEqual({
    status: 503,
    body: { status: 'not ready', failing: expect.arrayContaining([name, 'pubsub']) },
  });
});

test('without wake-ups it is ready, if degraded: else one server would take all processes out', async () => {
  expect(await readyWithout('pubsub')).toEqual({
    status: 200,
    body: { status: 'ready', degraded: ['pubsub'] },
  });
});
