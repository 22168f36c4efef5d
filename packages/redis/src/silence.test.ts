import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterEach, expect, test } from '@jest/globals';
import { silentLog } from '@wellspring/core/log';
import { eventually } from '@wellspring/testing/eventually';
import { withServers } from '@wellspring/testing/servers/servers';
import { openRedis } from './client.ts';

/** A way to a server on which everything can get lost, with nobody being told, as behind a broken network. */
interface Network {
  url: string;
  silence(): void;
  /** For connections that are made from now on; those before stay silent. */
  heal(): void;
  close(): void;
}

const networks: Network[] = [];
afterEach(() => {
  for (const network of networks.splice(0)) network.close();
});

async function openNetwork(url: string): Promise<Network> {
  const sockets = new Set<Socket>();
  let silent = false;
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    return socket;
  };
  const between = createServer((near) => {
    keep(near);
    if (silent) return near.resume();
    const far = keep(connect(Number(new URL(url).port), '127.0.0.1'));
    near.pipe(far).pipe(near);
    near.once('close', () => far.destroy());
    far.once('close', () => near.destroy());
  }).listen(0, '127.0.0.1');
  await once(between, 'listening');
  const network: Network = {
    url: `redis://127.0.0.1:${(between.address() as AddressInfo).port}`,
    silence() {
      silent = true;
      for (const socket of sockets) socket.unpipe().resume();
    },
    heal() {
      silent = false;
    },
    close() {
      between.close();
      for (const socket of sockets) socket.destroy();
    },
  };
  networks.push(network);
  return network;
}

await withServers(['redis'], ({ redis: url }) => {
  test('a server that falls silent: commands fail in 2 s, connections are replaced, channels heard again', async () => {
    const network = await openNetwork(url);
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
    // Nothing is asked on the subscriber's connection: it has found out by itself.
    await eventually(() => listening === 2, { ms: 8_000 });
    await redis.publish('a', 'again');
    await eventually(() => heard.length === 1);
    await subscriber.close();
    await redis.close();
  });

  test('closing does not wait for a server that is silent', async () => {
    const network = await openNetwork(url);
    const redis = await openRedis({ url: network.url, log: silentLog });
    network.silence();
    const begun = performance.now();
    await redis.close();
    expect(performance.now() - begun).toBeLessThan(4_500);
    expect(redis.isUp).toBe(false);
  });
});
