import { request } from 'node:http';
import { connect } from 'node:net';
import { afterEach, describe, expect, test } from '@jest/globals';
import { eventually } from '../eventually.ts';
import { type Keeper, startKeeper } from './run-keeper.ts';
import { withPrograms } from './servers.ts';

const keepers: Keeper[] = [];
afterEach(async () => {
  for (const keeper of keepers.splice(0)) await keeper.end();
});

async function start(env: Record<string, string> = {}): Promise<Keeper> {
  const keeper = await startKeeper({ PATH: process.env.PATH, ...env });
  keepers.push(keeper);
  return keeper;
}

function ask({ url }: Keeper, path: string, method = 'POST'): Promise<Record<string, string>> {
  return new Promise((resolve, reject) => {
    request(url + path, { method, agent: false }, async (res) =>
      resolve(JSON.parse((await res.toArray()).join(''))),
    )
      .once('error', reject)
      .end();
  });
}

/** Whether something listens there. */
const isThere = (url: string) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.destroy());
    socket.once('error', () => resolve(false));
    socket.once('close', (failed) => resolve(!failed));
  });

test('a server that is given is the one', async () => {
  const url = 'redis://somewhere';
  expect(await ask(await start({ WELLSPRING_TEST_REDIS_URL: url }), '/servers/redis')).toEqual({ url });
});

test('what is not installed and cannot be is missing, and that is told at the end', async () => {
  const keeper = await start({ PATH: '/nowhere' });
  expect(await ask(keeper, '/missing', 'GET')).toEqual({});
  const missing = 'redis-server not installed';
  expect(await ask(keeper, '/servers/redis')).toEqual({ missing });
  expect(await ask(keeper, '/programs/redis')).toEqual({ missing });
  expect(await ask(keeper, '/missing', 'GET')).toEqual({ redis: missing });
});

await withPrograms(['redis'], () => {
  describe('a server that is shared', () => {
    test('is one, and ends with the keeper', async () => {
      const keeper = await start();
      const [one, other] = await Promise.all([ask(keeper, '/servers/redis'), ask(keeper, '/servers/redis')]);
      expect(one).toEqual(other);
      expect(await isThere(one.url!)).toBe(true);
      await keeper.end();
      expect(await isThere(one.url!)).toBe(false);
    });

    test('ends with a keeper that is killed', async () => {
      const keeper = await start();
      const { url } = await ask(keeper, '/servers/redis');
      keeper.child.kill('SIGKILL');
      await eventually(async () => !(await isThere(url!)));
    });
  });
});
