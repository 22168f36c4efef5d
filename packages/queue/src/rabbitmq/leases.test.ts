import { expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import { eventually } from '@wellspring/testing/eventually';
import { P, RENEW_MS, useLeases } from './leases.fixture.ts';

const { join, settled, grow, beatOf, sessionRows, running, clashes, epochs } = useLeases();
/** Lease of processes that renew it in time, however busy the machine is. */
const STEADY_MS = 20_000;

test('a single process has all partitions; a joining or leaving one moves only its share; never two holders', async () => {
  const a = join('a', STEADY_MS);
  await settled(a);
  const b = join('b', STEADY_MS);
  await settled(a, b);
  expect([a.works.size, b.works.size]).toEqual([8, 8]);
  const [ofA, ofB] = [new Set(a.works), new Set(b.works)];
  const c = join('c', STEADY_MS);
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
  const four = ['a', 'b', 'c', 'd'].map((name) => join(name, STEADY_MS));
  await settled(...four);
  expect(four.map(({ works }) => works.size)).toEqual([4, 4, 4, 4]);
  expect(clashes).toEqual([]);
  grow();
});

test('a partition moves after its work has ended', async () => {
  const a = join('a', STEADY_MS);
  await settled(a);
  const held = Promise.withResolvers<void>();
  a.busy = held.promise;
  const b = join('b', STEADY_MS);
  await eventually(async () => (await sessionRows().count()) === 2);
  const then = await beatOf('b');
  await eventually(async () => (await beatOf('b')) >= then + 20);
  expect([b.works.size, a.works.size]).toEqual([0, P]);
  held.resolve();
  await settled(a, b);
  expect(clashes).toEqual([]);
});

test('a process that cannot reach the store starts nothing before its lease ends, and drops everything when another one takes it', async () => {
  const [a, b] = [join('a', 2_000), join('b', 2_000)];
  await settled(a, b);
  const [own, other] = [[...a.works][0]!, [...b.works][0]!];
  expect([a.leases.holds('runs', own), a.leases.holds('runs', other)]).toEqual([true, false]);
  a.isCutOff = true;
  await eventually(() => !a.leases.mayStart);
  expect(a.leases.holds('runs', own)).toBe(false);
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
  let [statements, isSettled, before] = [0, false, 0];
  const a = join('a', 3_000, async (_name, _args, answer) => {
    statements += 1;
    return answer.finally(() => {
      statements -= 1;
    });
  });
  const b = join(
    'b',
    3_000,
    async (name, args, answer) => {
      const given = await answer;
      const isLook = name === 'list' && args.length === 0;
      // No renewal of `a` is in progress, which this look at the sessions would not have seen.
      if (isSettled && !a.isCutOff && isLook && statements === 0) {
        a.isCutOff = true;
        before = b.pausedMs;
      }
      return given;
    },
    2_900,
  );
  await settled(a, b);
  isSettled = true;
  await eventually(() => a.isCutOff, { ms: 20_000 });
  // The pause after that look.
  await eventually(() => b.pausedMs > before);
  const { pausedMs } = b;
  await eventually(() => expect(b.works.size).toBe(P), { ms: 20_000 });
  // Its lease ends 3 s after that look; the second renewal of `b` from then on is after 5.8 s.
  expect(b.pausedMs - pausedMs).toBeLessThan(5_500);
});

test('an outage of the store for all processes moves no partition', async () => {
  const [a, b] = [join('a', 10_000), join('b', 10_000)];
  await settled(a, b);
  const before = JSON.stringify([...epochs]);
  for (const one of [a, b]) one.isCutOff = true;
  // Two thirds of the lease.
  await eventually(() => !a.leases.mayStart && !b.leases.mayStart, { ms: 20_000 });
  for (const one of [a, b]) one.isCutOff = false;
  await eventually(() => a.leases.mayStart && b.leases.mayStart);
  await settled(a, b);
  expect(JSON.stringify([...epochs])).toBe(before);
});

test('an outage of the store of two leases moves no partition, and no work in progress is dropped', async () => {
  const LEASE_MS = 3_000;
  const [a, b] = [join('a', LEASE_MS), join('b', LEASE_MS)];
  await settled(a, b);
  const before = JSON.stringify([...epochs]);
  const dropped: number[] = [];
  for (const { works } of [a, b]) {
    const remove = works.delete.bind(works);
    works.delete = (partition) => {
      dropped.push(partition);
      return remove(partition);
    };
  }
  for (const one of [a, b]) one.isCutOff = true;
  const begun = performance.now();
  await eventually(() => performance.now() - begun > 2 * LEASE_MS, { ms: 20_000 });
  expect([a.leases.mayStart, b.leases.mayStart]).toEqual([false, false]);
  for (const one of [a, b]) one.isCutOff = false;
  await eventually(() => a.leases.mayStart && b.leases.mayStart);
  await settled(a, b);
  expect(JSON.stringify([...epochs])).toBe(before);
  expect(dropped).toEqual([]);
});

test('a process that cannot reach the store and is not told that another one took its partitions drops them, too', async () => {
  const [a, b] = [join('a', 2_000), join('b', 2_000)];
  await settled(a, b);
  a.isCutOff = true;
  a.isDeaf = true;
  await settled(b);
  await eventually(() => a.works.size === 0, { ms: 20_000 });
  grow();
});

test('a process whose session another one ended drops everything at its next renewal and begins a new session', async () => {
  const a = join('a', STEADY_MS);
  await settled(a);
  const [before] = await sessionRows().list();
  await sessionRows().remove(before!.id);
  await eventually(async () => {
    const [now] = await sessionRows().list();
    return now !== undefined && now.id !== before!.id;
  });
  await settled(a);
  for (const taken of epochs.values()) expect(taken).toEqual([1, 2]);
});

test('the late answer to a claim of a partition does not replace a newer one', async () => {
  const late = Promise.withResolvers<void>();
  const claimed: unknown[] = [];
  const a = join('a', STEADY_MS, async (name, args, answer) => {
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

test('a process that cannot serve gives up partitions whose work does not end, too, if another one can', async () => {
  const [a, b] = [join('a'), join('b')];
  await settled(a, b);
  const held = Promise.withResolvers<void>();
  a.busy = held.promise;
  a.isUnable = true;
  await settled(b);
  held.resolve();
  a.isUnable = false;
  await settled(a, b);
  expect(clashes).toEqual([]);
  grow();
});

/** Two processes with work in progress, while neither can serve for longer than they keep partitions. */
async function duringOutage() {
  const leaseMs = 3_000;
  const [a, b] = [join('a', leaseMs), join('b', leaseMs)];
  await settled(a, b);
  const held = Promise.withResolvers<void>();
  const before = JSON.stringify([...epochs]);
  for (const one of [a, b]) Object.assign(one, { busy: held.promise, isUnable: true });
  const since = performance.now();
  await eventually(() => performance.now() - since > 4 * leaseMs, { ms: 20_000 });
  return {
    a,
    b,
    /** Both can serve again; no partition has moved. */
    async expectUnmoved() {
      for (const one of [a, b]) one.isUnable = false;
      await eventually(async () => (await sessionRows().list()).every(({ queues }) => queues === 'runs'));
      expect(JSON.stringify([...epochs])).toBe(before);
      held.resolve();
      await settled(a, b);
      expect(clashes).toEqual([]);
    },
  };
}

test('while no process can serve, partitions with work in progress are not given up', async () => {
  const { a, b, expectUnmoved } = await duringOutage();
  expect([a.works.size, b.works.size]).toEqual([P / 2, P / 2]);
  await expectUnmoved();
});

test('after an outage, a process that can serve later than others keeps its work in progress', async () => {
  const { a, b, expectUnmoved } = await duringOutage();
  a.isUnable = false;
  await eventually(async () => (await sessionRows().list()).some(({ queues }) => queues === 'runs'));
  // Two looks: each renews the session and lists the others.
  const { statements } = b;
  await eventually(() => b.statements >= statements + 4);
  expect(b.works.size).toBe(P / 2);
  await expectUnmoved();
});

test('a forfeited partition is dropped, and taken again with a later epoch', async () => {
  const a = join('a', STEADY_MS);
  await settled(a);
  a.leases.forfeit('runs', 3);
  expect(a.works.has(3)).toBe(false);
  await settled(a);
  expect(epochs.get(3)).toEqual([1, 2]);
});

test('steady processes cost two statements per renewal, however many partitions they have', async () => {
  const [a, b] = [join('a', STEADY_MS), join('b', STEADY_MS)];
  await settled(a, b);
  // Until both have seen that nothing is left to do.
  const settledAt = await beatOf('a');
  await eventually(async () => (await beatOf('a')) >= settledAt + 2);
  const [beat, statements] = [await beatOf('a'), a.statements];
  await eventually(async () => (await beatOf('a')) >= beat + 10);
  const renewals = (await beatOf('a')) - beat;
  expect(a.statements - statements).toBeLessThanOrEqual(2 * (renewals + 1));
});
