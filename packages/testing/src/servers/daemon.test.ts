import { request } from 'node:http';
import { connect } from 'node:net';
import { afterEach, describe, expect, test } from '@jest/globals';
import { eventually } from '../eventually.ts';
import { withPrograms } from './servers.ts';
import { type ServerDaemon, startServerDaemon } from './start-daemon.ts';

const daemons: ServerDaemon[] = [];
afterEach(async () => {
  for (const daemon of daemons.splice(0)) await daemon.end();
});

async function start(env: Record<string, string> = {}): Promise<ServerDaemon> {
  const daemon = await startServerDaemon({ PATH: process.env.PATH, ...env });
  daemons.push(daemon);
  return daemon;
}

function ask({ url }: ServerDaemon, path: string, method = 'POST'): Promise<Record<string, string>> {
  return new Promise((resolve, reject) => {
    request(url + path, { method, agent: false }, async (res) =>
      resolve(JSON.parse((await res.toArray()).join(''))),
    )
      .once('error', reject)
      .end();
  });
}

const isListening = (url: string) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.destroy());
    socket.once('error', () => resolve(false));
    socket.once('close', (failed) => resolve(!failed));
  });

test('a URL from the environment is used instead of a started server', async () => {
  const url = 'redis://somewhere';
  expect(await ask(await start({ WELLSPRING_TEST_REDIS_URL: url }), '/servers/redis')).toEqual({ url });
});

test('a server that cannot be installed is reported as missing', async () => {
  const daemon = await start({ PATH: '/nowhere' });
  expect(await ask(daemon, '/missing', 'GET')).toEqual({});
  const missing = 'redis-server not installed';
  expect(await ask(daemon, '/servers/redis')).toEqual({ missing });
  expect(await ask(daemon, '/programs/redis')).toEqual({ missing });
  expect(await ask(daemon, '/missing', 'GET')).toEqual({ redis: missing });
});

await withPrograms(['redis'], () => {
  describe('a shared server', () => {
    test('is started once and stops with the daemon', async () => {
      const daemon = await start();
      const [one, other] = await Promise.all([ask(daemon, '/servers/redis'), ask(daemon, '/servers/redis')]);
      expect(one).toEqual(other);
      expect(await isListening(one.url!)).toBe(true);
      await daemon.end();
      expect(await isListening(one.url!)).toBe(false);
    });

    test('stops when the daemon is killed', async () => {
      const daemon = await start();
      const { url } = await ask(daemon, '/servers/redis');
      daemon.child.kill('SIGKILL');
      await eventually(async () => !(await isListening(url!)));
    });
  });
});
