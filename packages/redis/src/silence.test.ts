import { expect, test } from '@jest/globals';
import { silentLog } from '@wellspring/core/log';
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
    const begun = performance.now();
    await expect(redis.commands.get('a')).rejects.toThrow();
    expect(performance.now() - begun).toBeLessThan(3_000);
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
    const begun = performance.now();
    await redis.close();
    expect(performance.now() - begun).toBeLessThan(4_500);
    expect(redis.isUp).toBe(false);
  });
});
