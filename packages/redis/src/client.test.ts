import { setImmediate as turn } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { type Log, silentLog } from '@wellspring/core/log';
import { eventually } from '@wellspring/testing/eventually';
import { closeAfterEach, forSuite } from '@wellspring/testing/lifetimes';
import { listLog } from '@wellspring/testing/list-log';
import { startRedis } from '@wellspring/testing/servers/redis';
import { withPrograms } from '@wellspring/testing/servers/servers';
import { openRedis } from './client.ts';

await withPrograms(['redis'], () => {
  const server = forSuite(startRedis);
  const closing = closeAfterEach();

  const open = async (options: { prefix?: string; log?: Log; url?: string } = {}) =>
    closing(await openRedis({ url: server.url, log: silentLog, ...options }));

  test('keys and channels are isolated by the prefix', async () => {
    const [mine, theirs] = [await open({ prefix: 'mine:' }), await open({ prefix: 'theirs:' })];
    await mine.commands.set('a', '1');
    expect(await theirs.commands.get('a')).toBeNull();
    expect(await mine.commands.keys('*')).toEqual(['mine:a']);

    const heard: string[] = [];
    const listening: string[] = [];
    const subscriber = await theirs.openSubscriber({
      message: (channel, message) => heard.push(`${channel} ${message}`),
      listening: (channel) => listening.push(channel),
    });
    subscriber.subscribe('a');
    await eventually(() => listening.length === 1);
    await mine.publish('a', 'not for you');
    await theirs.publish('a', 'é😀');
    await theirs.publish('a', '');
    await eventually(() => heard.length === 2);
    expect(heard).toEqual(['a é😀', 'a ']);
    await subscriber.close();
  });

  test('wrong credentials fail the start without leaking the password', async () => {
    const url = server.url.replace('//', '//someone:secret-password@');
    const error = await open({ url }).catch((reason: Error) => reason);
    expect(error).toMatchObject({
      message: expect.stringMatching(/^Redis refuses the connection: WRONGPASS/),
    });
    expect(String(error)).not.toContain('secret-password');
  });

  describe('an outage', () => {
    beforeEach(() => server.start());

    test('start waits for an unreachable server until the signal is aborted', async () => {
      await server.kill();
      const { log, lines } = listLog();
      const abort = new AbortController();
      const given = openRedis({ url: server.url, log, signal: abort.signal });
      await eventually(() => lines.includes('redis.down'));
      abort.abort(new Error('stopped'));
      await expect(given).rejects.toThrow('stopped');

      const waiting = open();
      await server.start();
      await (await waiting).ping();
    });

    test('commands fail at once, including those in flight, and succeed within 5 s of the return', async () => {
      const { log, lines } = listLog();
      const redis = await open({ log });
      const underWay = redis.commands.blpop('nothing', 0).catch((error: Error) => error);
      await server.kill();
      expect(await underWay).toMatchObject({ name: expect.stringContaining('Error') });
      await eventually(() => !redis.isUp);
      const failures = Promise.allSettled([redis.commands.get('a'), redis.ping()]);
      const settled = await Promise.race([failures, turn(undefined)]);
      expect(settled?.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
      await server.start();
      await eventually(() => redis.ping().then(() => true), { ms: 5_000 });
      expect(lines).toEqual(['redis.down', 'redis.up']);
    });
  });
});
