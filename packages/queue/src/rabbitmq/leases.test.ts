import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { systemClock } from '@wellspring/core/clock';
import { silentLog } from '@wellspring/core/log';
import { Unavailable } from '@wellspring/core/unavailable';
import { type Database, openDatabase } from '@wellspring/sqlite/database';
import { createEmbeddedStore } from '@wellspring/store/embedded';
import type { Store } from '@wellspring/store/port';
import { eventually } from '@wellspring/testing/eventually';
import { sessions } from './collections.ts';
import { createLeases, type Leases } from './leases.ts';

const P = 16;
const all = Array.from({ length: P }, (_, partition) => partition);
const RENEW_MS = 50;

let db: Database;
let store: Store;
const running: Member[] = [];
/** Partitions with two holders at the same time. */
let clashes: string[] = [];
/** Takings of each partition, in order. */
let epochs: Map<number, number[]>;
const wakeUps = new Set<() => void>();

interface Member {
  name: string;
  leases: Leases;
  /** Partitions according to take, release and lost. */
  works: Set<number>;
  /** Releases wait for this promise. */
  busy: Promise<void>;
  /** The store does not answer. */
  isCutOff: boolean;
  isUnable: boolean;
  statements: number;
  /** Called with each statement of the store, and returns its answer. */
  answer(name: string, args: unknown[], answer: Promise<unknown>): Promise<unknown>;
  leave(): Promise<void>;
}

beforeEach(() => {
  db = openDatabase(':memory:');
  store = createEmbeddedStore(db);
  clashes = [];
  epochs = new Map(all.map((partition) => [partition, []]));
  wakeUps.clear();
});
afterEach(async () => {
  for (const member of running.splice(0)) await member.leave();
  await db.close();
});

/** The store as one process sees it. */
function seenBy(member: () => Member): Store {
  return {
    ...store,
    collection(definition) {
      const rows = store.collection(definition);
      return new Proxy(rows, {
        get(target, name: keyof typeof rows) {
          return async (...args: unknown[]) => {
            member().statements += 1;
            if (member().isCutOff) throw new Unavailable('cut off');
            const answer = (target[name] as (...all: unknown[]) => Promise<unknown>)(...args);
            return member().answer(name, args, answer);
          };
        },
      });
    },
  };
}

function join(
  name: string,
  leaseMs = 400,
  answer: Member['answer'] = (_, __, given) => given,
  renewMs = RENEW_MS,
): Member {
  const stop = new AbortController();
  const leases = createLeases({
    store: seenBy(() => member),
    clock: systemClock,
    log: silentLog,
    member: name,
    partitions: P,
    wakeUp: {
      send() {
        for (const wake of wakeUps) wake();
      },
      onReceived: (listener) => wakeUps.add(listener),
    },
    isAble: () => !member.isUnable,
    renewMs,
    leaseMs,
  });
  const member: Member = {
    name,
    leases,
    works: new Set(),
    busy: Promise.resolve(),
    isCutOff: false,
    isUnable: false,
    statements: 0,
    answer,
    async leave() {
      stop.abort();
      await ended;
    },
  };
  const ended = leases.join(
    'runs',
    {
      take(partition, epoch) {
        epochs.get(partition)!.push(epoch);
        for (const other of running) {
          if (other !== member && other.works.has(partition)) {
            clashes.push(`${partition}: ${other.name} and ${name}`);
          }
        }
        member.works.add(partition);
      },
      async release(partition) {
        await member.busy;
        member.works.delete(partition);
      },
      lost: (partition) => void member.works.delete(partition),
    },
    stop.signal,
  );
  running.push(member);
  return member;
}

const beatOf = async (name: string) =>
  (await store.collection(sessions).list()).find(({ id }) => id.startsWith(name))!.beat;

/** All have an equal share, and each partition has a holder. */
const settled = (...members: Member[]) =>
  eventually(() => {
    for (const { works, leases } of members) {
      expect(Math.abs(works.size - P / members.length)).toBeLessThan(1);
      expect(leases.held('runs')).toBe(works.size);
    }
    expect(new Set(members.flatMap(({ works }) => [...works]))).toEqual(new Set(all));
  });

const grow = () => {
  for (const taken of epochs.values()) expect(taken).toEqual([...new Set(taken)].sort((a, b) => a - b));
};

test('a single process has all partitions; a joining or leaving one moves only its share; never two holders', async () => {
  const a = join('a');
  await settled(a);
  const b = join('b');
  await settled(a, b);
  expect([a.works.size, b.works.size]).toEqual([8, 8]);
  const [ofA, ofB] = [new Set(a.works), new Set(b.works)];
  const c = join('c');
  await settled(a, b, c);
  // Nothing moved between a and b.
  for (const partition of a.works) expect(ofA).toContain(partition);
  for (const partition of b.works) expect(ofB).toContain(partition);
  expect(await a.leases.holderOf('runs', [...c.works][0]!)).toBe('c');
  const [keptByA, keptByC] = [new Set(a.works), new Set(c.works)];
  running.splice(running.indexOf(b), 1);
  await b.leave();
  await settled(a, c);
  for (const partition of keptByA) expect(a.works).toContain(partition);
  for (const partition of keptByC) expect(c.works).toContain(partition);
  expect(clashes).toEqual([]);
  grow();
});

test('four processes started together have equal shares, and most partitions never move', async () => {
  const four = ['a', 'b', 'c', 'd'].map((name) => join(name));
  await settled(...four);
  expect(four.map(({ works }) => works.size)).toEqual([4, 4, 4, 4]);
  expect(clashes).toEqual([]);
  grow();
});

test('a partition moves after its work has ended', async () => {
  const a = join('a');
  await settled(a);
  const held = Promise.withResolvers<void>();
  a.busy = held.promise;
  const b = join('b');
  await eventually(async () => (await store.collection(sessions).count()) === 2);
  const then = await beatOf('b');
  await eventually(async () => (await beatOf('b')) >= then + 20);
  expect([b.works.size, a.works.size]).toEqual([0, P]);
  held.resolve();
  await settled(a, b);
  expect(clashes).toEqual([]);
});

test('a process that cannot reach the store starts nothing before its lease ends, then drops everything, and others take it', async () => {
  const [a, b] = [join('a'), join('b')];
  await settled(a, b);
  a.isCutOff = true;
  await eventually(() => !a.leases.mayStart);
  await settled(b);
  expect([a.works.size, a.leases.mayStart]).toEqual([0, false]);
  expect(clashes).toEqual([]);
  a.isCutOff = false;
  await settled(a, b);
  expect(a.leases.mayStart).toBe(true);
  expect(clashes).toEqual([]);
  grow();
});

test('a process that died is replaced when its lease ends, however rarely the others renew theirs', async () => {
  const [a, b] = [join('a', 3_000), join('b', 3_000, undefined, 2_900)];
  await settled(a, b);
  const looks = b.statements;
  await eventually(() => b.statements > looks);
  a.isCutOff = true;
  // Its lease ends 3 s after `b` has seen its last renewal; the second renewal of `b` from then on is after 5.8 s.
  await eventually(() => expect(b.works.size).toBe(P), { ms: 5_500 });
});

test('an outage of the store for all processes moves no partition', async () => {
  const [a, b] = [join('a', 2_000), join('b', 2_000)];
  await settled(a, b);
  const before = JSON.stringify([...epochs]);
  for (const one of [a, b]) one.isCutOff = true;
  const since = performance.now();
  await eventually(() => performance.now() - since > 1_400);
  for (const one of [a, b]) one.isCutOff = false;
  await eventually(() => a.leases.mayStart && b.leases.mayStart);
  await settled(a, b);
  expect(JSON.stringify([...epochs])).toBe(before);
});

test('a process whose session another one ended drops everything at its next renewal and begins a new session', async () => {
  const a = join('a');
  await settled(a);
  const [before] = await store.collection(sessions).list();
  await store.collection(sessions).remove(before!.id);
  await eventually(async () => {
    const [now] = await store.collection(sessions).list();
    return now !== undefined && now.id !== before!.id;
  });
  await settled(a);
  for (const taken of epochs.values()) expect(taken).toEqual([1, 2]);
});

test('the late answer to a claim of a partition does not replace a newer one', async () => {
  const late = Promise.withResolvers<void>();
  const claimed: unknown[] = [];
  const a = join('a', 2_000, async (name, args, answer) => {
    const given = await answer;
    if (name !== 'patch' || !(args[1] as { epoch?: number }).epoch) return given;
    claimed.push(args[0]);
    // Of the first claims, the answer to one is late and that to another one is lost.
    if (claimed.length === 1) await late.promise;
    if (claimed.length === 2) throw new Unavailable('the connection was lost');
    return given;
  });
  await eventually(() => claimed.length >= P);
  const since = performance.now();
  await eventually(() => performance.now() - since > 4 * RENEW_MS);
  late.resolve();
  await new Promise(setImmediate);
  await settled(a);
  grow();
});

test('a process that cannot serve gives its partitions up after the length of a lease', async () => {
  const [a, b] = [join('a'), join('b')];
  await settled(a, b);
  a.isUnable = true;
  await settled(b);
  a.isUnable = false;
  await settled(a, b);
  expect(clashes).toEqual([]);
});

test('a forfeited partition is dropped, and taken again with a later epoch', async () => {
  const a = join('a');
  await settled(a);
  a.leases.forfeit('runs', 3);
  expect(a.works.has(3)).toBe(false);
  await settled(a);
  expect(epochs.get(3)).toEqual([1, 2]);
});

test('steady processes cost two statements per renewal, however many partitions they have', async () => {
  const [a, b] = [join('a'), join('b')];
  await settled(a, b);
  // Until both have seen that nothing is left to do.
  const settledAt = await beatOf('a');
  await eventually(async () => (await beatOf('a')) >= settledAt + 2);
  const [beat, statements] = [await beatOf('a'), a.statements];
  await eventually(async () => (await beatOf('a')) >= beat + 10);
  const renewals = (await beatOf('a')) - beat;
  expect(a.statements - statements).toBeLessThanOrEqual(2 * (renewals + 1));
});
