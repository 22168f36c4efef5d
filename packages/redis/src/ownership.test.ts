import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { systemClock } from '@wellspring/core/clock';
import { silentLog } from '@wellspring/core/log';
import { shareOf } from '@wellspring/core/partitions';
import { eventually } from '@wellspring/testing/eventually';
import { startRedis } from '@wellspring/testing/servers/redis';
import type { TestServer } from '@wellspring/testing/servers/server';
import { withPrograms } from '@wellspring/testing/servers/servers';
import { openRedis, type Redis } from './client.ts';
import { createOwnership, type Ownership } from './ownership.ts';

const P = 16;
const all = Array.from({ length: P }, (_, partition) => partition);

await withPrograms(['redis'], () => {
  let server: TestServer;
  let group = 0;
  const running: Member[] = [];

  interface Member {
    ownership: Ownership;
    redis: Redis;
    /** Partitions according to take and release. */
    works: Set<number>;
    /** Releases wait for this promise. */
    busy: Promise<void>;
    /** Heartbeats wait for this promise. */
    paused: Promise<void>;
    /** Heartbeats so far. */
    beats: number;
    leave(): Promise<void>;
  }
  /** Partitions with two owners at the same time. */
  let clashes: string[] = [];

  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.dispose());
  beforeEach(() => {
    group += 1;
    clashes = [];
  });
  afterEach(async () => {
    for (const member of running.splice(0)) await member.leave();
  });

  async function join(name: string): Promise<Member> {
    const redis = await openRedis({ url: server.url, log: silentLog });
    const ownership = createOwnership({
      redis,
      clock: {
        now: systemClock.now,
        async sleep(ms, signal) {
          member.beats += 1;
          await systemClock.sleep(ms, signal);
          await member.paused;
        },
      },
      log: silentLog,
      group: `g${group}`,
      partitions: P,
      member: name,
      heartbeatMs: 50,
    });
    const stop = new AbortController();
    const member: Member = {
      ownership,
      redis,
      works: new Set(),
      busy: Promise.resolve(),
      paused: Promise.resolve(),
      beats: 0,
      async leave() {
        stop.abort();
        await ended;
        await redis.close();
      },
    };
    const ended = ownership.run(
      {
        take(partition) {
          for (const other of running) {
            if (other !== member && other.works.has(partition)) {
              clashes.push(`${partition}: ${other.ownership.member} and ${name}`);
            }
          }
          member.works.add(partition);
        },
        async release(partition) {
          await member.busy;
          member.works.delete(partition);
        },
      },
      stop.signal,
    );
    running.push(member);
    return member;
  }

  const share = (member: Member, members: readonly Member[]) =>
    shareOf(
      member.ownership.member,
      members.map(({ ownership }) => ownership.member),
      { group: `g${group}`, partitions: P },
    );

  /** All own their share, and each partition has an owner. */
  const settled = (...members: Member[]) =>
    eventually(() => {
      for (const member of members) {
        expect(member.works.size).toBe(share(member, members));
        expect(new Set(member.ownership.owned)).toEqual(member.works);
      }
      expect(new Set(members.flatMap(({ works }) => [...works]))).toEqual(new Set(all));
    });

  test('a single process owns all partitions; a joining or leaving one moves only its share; never two owners', async () => {
    const a = await join('a');
    await settled(a);
    const b = await join('b');
    await settled(a, b);
    expect([a.works.size, b.works.size]).toEqual([8, 8]);
    const [ofA, ofB] = [new Set(a.works), new Set(b.works)];
    const c = await join('c');
    await settled(a, b, c);
    // Nothing moved between a and b.
    for (const partition of a.works) expect(ofA).toContain(partition);
    for (const partition of b.works) expect(ofB).toContain(partition);
    expect(await a.ownership.ownerOf([...c.works][0]!)).toBe('c');
    const [keptByA, keptByC] = [new Set(a.works), new Set(c.works)];
    running.splice(running.indexOf(b), 1);
    await b.leave();
    await settled(a, c);
    for (const partition of keptByA) expect(a.works).toContain(partition);
    for (const partition of keptByC) expect(c.works).toContain(partition);
    expect(clashes).toEqual([]);
  });

  test('four processes started together own equal shares', async () => {
    const four = await Promise.all(['a', 'b', 'c', 'd'].map(join));
    await settled(...four);
    expect(four.map(({ works }) => works.size)).toEqual([4, 4, 4, 4]);
    expect(clashes).toEqual([]);
  });

  test('a partition moves after its work has ended', async () => {
    const a = await join('a');
    await settled(a);
    let finish = () => {};
    a.busy = new Promise((resolve) => {
      finish = resolve;
    });
    const b = await join('b');
    await eventually(async () => (await a.redis.commands.zcard(`owners:g${group}`)) === 2);
    // Many heartbeats later they have not moved.
    const then = b.beats;
    await eventually(() => b.beats >= then + 20);
    expect(b.works.size).toBe(0);
    expect(a.works.size).toBe(P);
    finish();
    await settled(a, b);
    expect(clashes).toEqual([]);
  });

  test('processes keep their partitions during and after an outage of Redis', async () => {
    const [a, b] = [await join('a'), await join('b')];
    await settled(a, b);
    const before = [[...a.works], [...b.works]];
    let moved = 0;
    const count = () => {
      moved += 1;
    };
    for (const member of [a, b]) {
      const add = member.works.add.bind(member.works);
      member.works.add = (partition) => {
        count();
        return add(partition);
      };
    }
    await server.kill();
    await eventually(() => !a.redis.isUp && !b.redis.isUp);
    expect([[...a.works], [...b.works]]).toEqual(before);
    await server.start();
    await eventually(async () => (await a.redis.commands.zcard(`owners:g${group}`).catch(() => 0)) === 2);
    await settled(a, b);
    expect([moved, clashes]).toEqual([0, []]);
  });

  test('a server that lost its data assigns nothing before the owners had time to register', async () => {
    const a = await join('a');
    await settled(a);
    // Its heartbeat comes after the other one's.
    const resume = Promise.withResolvers<void>();
    a.paused = resume.promise;
    await a.redis.commands.flushall();
    const b = await join('b');
    await eventually(() => b.beats >= 4);
    expect(b.works.size).toBe(0);
    resume.resolve();
    await settled(a, b);
    expect(clashes).toEqual([]);
  });

  test('partitions of a dead process are acquired by the others', async () => {
    const [a, b] = [await join('a'), await join('b')];
    await settled(a, b);
    // No heartbeats and no work from now on.
    running.splice(running.indexOf(b), 1);
    b.works.clear();
    await b.redis.close();
    await settled(a);
    await b.leave();
  });
});
