import { describe, expect, test } from '@jest/globals';
import { createCallGaps } from './call-gaps.ts';
import { chooseEnded, createProcessMemory, ESTIMATED_BYTES, type MemoryUser } from './process-memory.ts';

const MB = 1024 * 1024;
const settled = () => new Promise((resolve) => setImmediate(resolve));

interface Fake extends MemoryUser {
  ownerId: string;
  bytes: number;
  busy: number;
  calls: number;
  usable: boolean;
  memoryBytes: number | undefined;
  hasCode: boolean;
}

const fake = (ownerId: string, mb: number, others: Partial<Fake> = {}): Fake => ({
  ownerId,
  bytes: mb * MB,
  calls: 1,
  busy: 0,
  usedAt: 0,
  gapMs: 0,
  usable: true,
  memoryBytes: mb * MB,
  hasCode: true,
  ...others,
});

describe('processes that do not fit into the memory', () => {
  const busy = (ownerId: string, mb: number) => fake(ownerId, mb, { busy: 1 });

  test('are ended if they are idle, of the owner that holds the most, least recently used first', () => {
    const [old, recent] = [fake('many', 40, { usedAt: 2 }), fake('many', 40, { usedAt: 3 })];
    const [other, run] = [fake('few', 40, { usedAt: 1 }), busy('most', 90)];
    const all = [other, recent, run, old];
    expect(chooseEnded(all, 210 * MB)).toEqual([]);
    expect(chooseEnded(all, 209 * MB)).toEqual([old]);
    expect(chooseEnded(all, 165 * MB)).toEqual([old, other]);
    expect(chooseEnded(all, 100 * MB)).toEqual([old, other, recent]);
  });

  test('are ended at once if their source is called at gaps that none would outlast, the latest next call first', () => {
    const at = (usedAt: number, gapMs: number, owner = 'one') => fake(owner, 40, { usedAt, gapMs });
    const [oldest, rare, rarer] = [at(0, 0), at(50, 100), at(60, 100)];
    const all = [oldest, rare, at(70, 5), rarer, at(0, 900, 'other')];
    expect(chooseEnded(all, 160 * MB, 0, 100)).toEqual([rarer]);
    // The oldest one has waited for longer than their gaps, so each of them may wait as long.
    expect(chooseEnded(all, 160 * MB, 0, 150)).toEqual([oldest]);
  });

  test('are a part of those called in turn, so that the others find theirs at each round', () => {
    const room = 70;
    const idle = new Array<Fake | undefined>(500).fill(undefined);
    let now = 0;
    const gaps = createCallGaps(() => now);
    const warm = [0, 0, 0, 0];
    for (const round of warm.keys()) {
      for (const [n, found] of idle.entries()) {
        // Gaps are not equally long.
        now += 100 + ((n * 7 + round * 13) % 40);
        if (found) warm[round]! += 1;
        const gapMs = gaps.begin(`${n}`);
        gaps.end(`${n}`);
        idle[n] = fake('one', 1, { usedAt: now, gapMs });
        const all = idle.filter((one) => one !== undefined);
        for (const ended of chooseEnded(all, room * MB, 0, now)) idle[idle.indexOf(ended)] = undefined;
      }
    }
    // At best, all but one of those with room.
    for (const count of warm.slice(1)) expect(count).toBeGreaterThan(room / 2);
  });

  test('are ended during their run if all idle ones were, the largest of the owner that uses the most', () => {
    const [small, large] = [busy('many', 40), busy('many', 50)];
    const [single, idle] = [busy('single', 80), fake('single', 20)];
    const all = [single, small, large, idle];
    expect(chooseEnded(all, 170 * MB)).toEqual([idle]);
    expect(chooseEnded(all, 150 * MB)).toEqual([idle, large]);
    expect(chooseEnded(all, 100 * MB)).toEqual([idle, large, single]);
  });

  test('stay if they are the last one, or have no call yet', () => {
    expect(chooseEnded([busy('one', 300)], 100 * MB)).toEqual([]);
    const [run, begun] = [busy('one', 300), fake('one', 300, { calls: 0 })];
    expect(chooseEnded([run, begun], 100 * MB)).toEqual([run]);
  });

  test('end for a process of an owner that has none only if their owner has more than half', () => {
    const [first, second] = [busy('one', 30), busy('one', 31)];
    const other = busy('other', 39);
    expect(chooseEnded([first, second, other], 100 * MB, 24 * MB)).toEqual([second]);
    expect(chooseEnded([first, busy('two', 31), other], 100 * MB, 24 * MB)).toEqual([]);
  });
});

function simulate(limitMb: number) {
  const children = new Set<Fake>();
  const ended: Fake[] = [];
  const memory = createProcessMemory<Fake, Fake>({
    limitBytes: limitMb * MB,
    children,
    processOf: (child) => (child.hasCode ? child : undefined),
    end(child) {
      child.usable = false;
      ended.push(child);
    },
  });
  return {
    memory,
    children,
    ended,
    add(one: Fake): Fake {
      children.add(one);
      return one;
    },
    /** The busy process of a start that was admitted. */
    started(ownerId: string, release: () => void, mb = ESTIMATED_BYTES / MB): Fake {
      const one = fake(ownerId, mb, { busy: 1 });
      children.add(one);
      release();
      return one;
    },
  };
}

/** Starts of an owner, and how many of them were admitted. */
function starts(memory: ReturnType<typeof simulate>['memory'], owner: string, count: number) {
  const admitted: (() => void)[] = [];
  const all = Array.from({ length: count }, () =>
    memory.admit(owner).then((release) => void admitted.push(release)),
  );
  return { admitted, all };
}

describe('starts', () => {
  test('of one owner take half of the memory; another owner does not wait, nor for idle processes', async () => {
    const { memory, add } = simulate(10 * (ESTIMATED_BYTES / MB));
    for (let n = 0; n < 8; n++) add(fake('idle', ESTIMATED_BYTES / MB));
    const many = starts(memory, 'many', 100);
    await settled();
    expect(many.admitted).toHaveLength(5);
    const other = starts(memory, 'other', 1);
    await settled();
    expect(other.admitted).toHaveLength(1);
  });

  test('go on when processes become idle, shrink, fail to start or end', async () => {
    const { memory, started } = simulate(100);
    const { admitted } = starts(memory, 'one', 10);
    await settled();
    expect(admitted).toHaveLength(3);
    const [first, second] = [started('one', admitted[0]!, 60), started('one', admitted[1]!)];
    admitted[2]!();
    await settled();
    expect(admitted).toHaveLength(3);
    first.bytes = 10 * MB;
    memory.fit();
    await settled();
    expect(admitted).toHaveLength(4);
    second.busy = 0;
    memory.serve();
    await settled();
    expect(admitted).toHaveLength(5);
    first.usable = false;
    memory.serve();
    await settled();
    expect(admitted).toHaveLength(6);
  });

  test('one process always starts, and waiting owners take turns', async () => {
    const { memory, add } = simulate(50);
    add(fake('', 100, { hasCode: false }));
    const order: string[] = [];
    const one = async (owner: string) => {
      const release = await memory.admit(owner);
      order.push(owner);
      setImmediate(release);
    };
    await Promise.all([one('many'), one('many'), one('many'), one('other')]);
    // The first one is admitted before the others wait.
    expect(order).toEqual(['many', 'many', 'other', 'many']);
  });

  test('of an owner without a process end one of an owner that has more than half', async () => {
    const { memory, add, ended } = simulate(200);
    const [small, large] = [fake('one', 90, { busy: 1 }), fake('one', 100, { busy: 1 })];
    add(small);
    add(large);
    const own = starts(memory, 'one', 1);
    memory.fit();
    await settled();
    expect(ended).toEqual([]);
    const other = starts(memory, 'other', 1);
    memory.fit();
    await settled();
    expect(ended).toEqual([large]);
    expect([own.admitted.length, other.admitted.length]).toEqual([0, 1]);
  });

  test('are refused when it is closed', async () => {
    const { memory, add } = simulate(50);
    add(fake('one', 50, { busy: 1 }));
    const waiting = memory.admit('one');
    memory.close();
    await expect(waiting).rejects.toThrow('The sandbox is closed.');
    await expect(memory.admit('two')).rejects.toThrow('The sandbox is closed.');
  });
});
