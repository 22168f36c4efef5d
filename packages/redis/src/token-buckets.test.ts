import { randomUUID } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import { silentLog } from '@wellspring/core/log';
import { createTokenBuckets, type TokenBuckets } from '@wellspring/core/token-buckets';
import { eventually } from '@wellspring/testing/eventually';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { closeAfterEach, forSuite } from '@wellspring/testing/lifetimes';
import { startRedis } from '@wellspring/testing/servers/redis';
import { withPrograms, withServers } from '@wellspring/testing/servers/servers';
import { openRedis } from './client.ts';
import { createSharedBuckets } from './token-buckets.ts';

const closing = closeAfterEach();

const nothing: TokenBuckets = {
  take() {
    throw new Error('Redis was not asked');
  },
};

/** The buckets of one process. Redis may take long to answer on a busy machine. */
async function open(url: string, prefix: string, alone = nothing) {
  const redis = closing(await openRedis({ url, prefix, log: silentLog, commandTimeoutMs: 30_000 }));
  return { redis, buckets: createSharedBuckets(redis, alone, { answerTimeoutMs: 30_000 }) };
}

await withServers(['redis'], ({ redis: url }) => {
  describe('buckets of several processes', () => {
    const processes = async () => {
      const prefix = `${randomUUID()}:`;
      return Promise.all([open(url, prefix), open(url, prefix), open(url, prefix)]);
    };

    /** Sent together, so that no time passes in between. */
    const takeThree = (buckets: TokenBuckets, key: string) =>
      Promise.all([buckets.take(key, 1), buckets.take(key, 1), buckets.take(key, 1)]);

    test('grant a burst of twice the rate in total, then the rate', async () => {
      const all = await processes();
      const rate = 20;
      const begun = performance.now();
      let passed = 0;
      const round = async () => {
        const taken = await Promise.all(all.map(({ buckets }) => buckets.take('a', rate)));
        const count = taken.filter((seconds) => seconds === 0).length;
        passed += count;
        expect(passed).toBeLessThanOrEqual(2 * rate + ((performance.now() - begun) / 1000) * rate);
        return count;
      };
      while ((await round()) > 0);
      expect(passed).toBeGreaterThanOrEqual(2 * rate);
      const [burst, since] = [passed, performance.now()];
      while (performance.now() - since < 1_000) await round();
      while ((await round()) > 0);
      // The server's clock is slightly behind.
      expect(passed - burst).toBeGreaterThanOrEqual(rate - 1);
    });

    test('return the time until the next token', async () => {
      const [{ buckets }] = await processes();
      const asked = performance.now();
      const [first, second, third] = await takeThree(buckets, 'a');
      expect([first, second]).toEqual([0, 0]);
      expect(third).toBeGreaterThan(0);
      expect(third).toBeLessThanOrEqual(1);
      const due = asked + third * 1000;
      await eventually(async () => (await buckets.take('a', 1)) === 0, { every: 1 });
      expect(performance.now()).toBeGreaterThanOrEqual(due - 5);
    });

    test('are empty at most when the clock of the server was set back', async () => {
      const [{ redis, buckets }] = await processes();
      await redis.commands.set('bucket/a', Date.now() + 600_000, 'PX', 600_000);
      expect(await buckets.take('a', 1)).toBeLessThanOrEqual(1);
    });

    test('are separate per key, and expire when full', async () => {
      const [{ redis, buckets }] = await processes();
      for (const key of ['a', 'b']) {
        const taken = await takeThree(buckets, key);
        expect(taken.map((seconds) => seconds > 0)).toEqual([false, false, true]);
      }
      expect(await buckets.take('c', 100)).toBe(0);
      await eventually(async () => (await redis.commands.exists('bucket/c')) === 0);
      expect(await redis.commands.pttl('bucket/a')).toBeLessThanOrEqual(2_000);
    });

    test('survive a server that lost the script', async () => {
      const [{ redis, buckets }] = await processes();
      await buckets.take('a', 10);
      await redis.commands.script('FLUSH');
      expect(await buckets.take('a', 10)).toBe(0);
    });
  });
});

await withPrograms(['redis'], () => {
  describe('while Redis is away', () => {
    const server = forSuite(startRedis);

    test('a process uses its local buckets without delay, and Redis within 5 s of its return', async () => {
      const { redis, buckets } = await open(server.url, 'p:', createTokenBuckets(createFakeClock()));
      await eventually(async () => (await buckets.take('a', 10)) > 0, { every: 0 });
      await server.kill();
      await eventually(() => !redis.isUp);
      // The local bucket is full.
      const taken = Promise.all(Array.from({ length: 21 }, () => buckets.take('a', 10)));
      const answers = await Promise.race([taken, turn(undefined)]);
      expect(answers).toEqual([...Array(20).fill(0), expect.any(Number)]);
      expect(answers!.at(-1)).toBeGreaterThan(0);
      await server.start();
      await eventually(
        async () => {
          await buckets.take('b', 10);
          return (await redis.commands.exists('bucket/b')) === 1;
        },
        { ms: 5_000 },
      );
    });
  });
});
