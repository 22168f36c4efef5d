import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { systemClock } from '@wellspring/core/clock';
import { silentLog } from '@wellspring/core/log';
import { partitionsOf } from '@wellspring/core/rendezvous';
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
    /** Partitions that it works on, as it was told. */
    works: Set<number>;
    /** While this is unsettled, no release ends. */
    busy: Promise<void>;
    /** Heartbeats so far. */
    beats: number;
    leave(): Promise<void>;
  }
  /** Work on one partition by two at the same time. */
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
        sleep(ms, signal) {
          member.beats += 1;
          return systemClock.sleep(ms, signal);
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

  const settled = (...members: Member[]) =>
    eventually(() => {
      const names = members.map(({ ownership }) => ownership.member);
      for (const { works, ownership } of members) {
        const mine = partitionsOf(ownership.member, names, P);
        expect([...works].sort((a, b) => a - b)).toEqual(mine);
        expect([...ownership.held].sort((a, b) => a - b)).toEqual(mine);
      }
    });

  test('one has all; one that joins or leaves moves only its share; never two at a time', async () => {
    const a = await join('a');
    await settled(a);
    const b = await join('b');
    await settled(a, b);
    const c = await join('c');
    await settled(a, b, c);
    expect(await a.ownership.holderOf([...c.works][0]!)).toBe('c');
    running.splice(running.indexOf(b), 1);
    await b.leave();
    await settled(a, c);
    expect(clashes).toEqual([]);
    expect(new Set([...a.works, ...c.works])).toEqual(new Set(all));
  });

  test('a partition moves only when the work on it has ended', async () => {
    const a = await join('a');
    await settled(a);
    let finish = () => {};
    a.busy = new Promise((resolve) => {
      finish = resolve;
    });
    const b = await join('b');
    const moving = partitionsOf('b', ['a', 'b'], P);
    await eventually(async () => (await a.redis.commands.zcard(`owners:g${group}`)) === 2);
    // Many heartbeats later they are still where the work is.
    const then = b.beats;
    await eventually(() => b.beats >= then + 20);
    expect(b.works.size).toBe(0);
    expect(moving.every((partition) => a.works.has(partition))).toBe(true);
    finish();
    await settled(a, b);
    expect(clashes).toEqual([]);
  });

  test('while Redis is away everybody keeps what it has, and afterwards, too', async () => {
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

  test('what a process that died had is taken by the others', async () => {
    const [a, b] = [await join('a'), await join('b')];
    await settled(a, b);
    // It is not heard of any more, and works no more.
    running.splice(running.indexOf(b), 1);
    b.works.clear();
    await b.redis.close();
    await settled(a);
    await b.leave();
  });
});
