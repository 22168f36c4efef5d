import { expect, test } from '@jest/globals';
import { silentLog } from '@wellspring/core/log';
import { withTimeout } from '@wellspring/core/with-timeout';
import { eventually } from '@wellspring/testing/eventually';
import { openNetwork } from '@wellspring/testing/network';
import { withServers } from '@wellspring/testing/servers/servers';
import { openRedis } from './client.ts';

await withServers(['redis'], ({ redis: url }) => {
  test('when the server falls silent, commands fail in 2 s, connections are replaced and subscriptions restored', async () => {
    await using network = await openNetwork(url);
    const redis = await openRedis({ url: network.url, prefix: 'silence:', log: silentLog });
    let listening = 0;
    const heard: string[] = [];
    const subscriber = await redis.openSubscriber({
      listening: () => {
        listening += 1;
      },
      message: (_channel, message) => heard.push(message),
    });
    subscriber.subscribe('a');
    await eventually(() => listening === 1);

    network.silence();
    // By a timer of the same event loop, since this process may be slow.
    await expect(withTimeout(redis.commands.get('a'), 3_000)).rejects.toThrow();
    network.heal();
    await eventually(() => redis.ping().then(() => true), { ms: 8_000 });
    // The subscriber's connection detects the silence by its heartbeat.
    await eventually(() => listening === 2, { ms: 8_000 });
    await redis.publish('a', 'again');
    await eventually(() => heard.length === 1);
    await subscriber.close();
    await redis.close();
  });

  test('close does not wait for a silent server', async () => {
    await using network = await openNetwork(url);
    const redis = await openRedis({ url: network.url, log: silentLog });
    network.silence();
    const closed = redis.close().then(() => 'closed');
    expect(await withTimeout(closed, 4_500, () => 'late')).toBe('closed');
    expect(redis.isUp).toBe(false);
  });
});
