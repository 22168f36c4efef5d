import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { silentLog } from '@wellspring/core/log';
import { openRedis } from '@wellspring/redis/client';
import { eventually } from '@wellspring/testing/eventually';
import { closeAfterEach, forSuite } from '@wellspring/testing/lifetimes';
import { startRedis } from '@wellspring/testing/servers/redis';
import { withPrograms, withServers } from '@wellspring/testing/servers/servers';
import { pubsubConformance } from '../conformance.ts';
import type { PubSub } from '../port.ts';
import { createRedisPubSub } from './pubsub.ts';

/** The PubSub of one process. Redis may take long to answer on a busy machine. */
async function open(url: string, prefix = `${randomUUID()}:`): Promise<PubSub> {
  const redis = await openRedis({ url, prefix, log: silentLog, commandTimeoutMs: 30_000 });
  const pubsub = await createRedisPubSub(redis, { log: silentLog });
  return {
    ...pubsub,
    async close() {
      await pubsub.close();
      await redis.close();
    },
  };
}

await withServers(['redis'], ({ redis: url }) => {
  pubsubConformance('redis', () => open(url));

  describe('between processes', () => {
    const closing = closeAfterEach();
    const processes = (...prefixes: string[]) =>
      Promise.all(prefixes.map(async (prefix) => closing(await open(url, prefix))));

    test('a listener is woken when its subscription becomes active, and receives messages of other processes', async () => {
      const prefix = `${randomUUID()}:`;
      const [mine, theirs] = (await processes(prefix, prefix)) as [PubSub, PubSub];
      const heard: string[] = [];
      mine.subscribe('a', (message) => heard.push(message));
      await eventually(() => heard.length === 1);
      theirs.publish('a', 'x');
      await eventually(() => heard.length === 2);
      expect(heard).toEqual(['', 'x']);
    });

    test('a topic without listeners can be subscribed to once more', async () => {
      const prefix = `${randomUUID()}:`;
      const [mine, theirs] = (await processes(prefix, prefix)) as [PubSub, PubSub];
      mine.subscribe('a', () => {})();
      const heard: string[] = [];
      mine.subscribe('a', (message) => heard.push(message));
      await eventually(() => {
        theirs.publish('a', 'x');
        return heard.includes('x');
      });
    });

    test('installations on one server are isolated', async () => {
      const [mine, theirs] = (await processes(`${randomUUID()}:`, `${randomUUID()}:`)) as [PubSub, PubSub];
      const heard: string[] = [];
      mine.subscribe('a', (message) => heard.push(message));
      await eventually(() => heard.length === 1);
      theirs.publish('a', 'theirs');
      await theirs.ping();
      mine.publish('a', 'mine');
      await eventually(() => heard.length === 2);
      expect(heard).toEqual(['', 'mine']);
    });
  });
});

await withPrograms(['redis'], () => {
  describe('an outage of Redis', () => {
    const server = forSuite(startRedis);

    test('ends for every listener within 5 s of the return, with one wake-up each', async () => {
      const [mine, theirs] = [await open(server.url, 'p:'), await open(server.url, 'p:')];
      const topics = Array.from({ length: 1_200 }, (_, index) => `t${index}`);
      const heard = new Map(topics.map((topic) => [topic, [] as string[]]));
      for (const topic of topics) mine.subscribe(topic, (message) => heard.get(topic)!.push(message));
      await eventually(() => topics.every((topic) => heard.get(topic)!.length === 1));

      await server.kill();
      await expect(mine.ping()).rejects.toThrow();
      for (const messages of heard.values()) messages.length = 0;
      theirs.publish('t0', 'into the void');
      await server.start();
      await eventually(() => topics.every((topic) => heard.get(topic)!.length === 1), { ms: 5_000 });
      await eventually(() => theirs.ping().then(() => true), { ms: 5_000 });
      theirs.publish('t1', 'after');
      await eventually(() => heard.get('t1')!.length === 2);
      expect(heard.get('t0')).toEqual(['']);
      expect(heard.get('t1')).toEqual(['', 'after']);
      await mine.close();
      await theirs.close();
    });

    test('does not affect messages within a process', async () => {
      const pubsub = await open(server.url);
      const heard: string[] = [];
      pubsub.subscribe('a', (message) => heard.push(message));
      await eventually(() => heard.length === 1);
      await server.kill();
      await eventually(() => {
        pubsub.publish('a', 'own');
        return heard.includes('own');
      });
      await pubsub.close();
      await server.start();
    });
  });
});
