import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createFairPermits, type FairPermits } from './fair-permits.ts';

/** A request and its outcome. */
interface Request {
  owner: string;
  number: number;
  state: 'waiting' | 'held' | 'aborted' | 'released';
  release(): void;
  abort(): void;
}

/** Requests of a test, in the order in which they were made and in which they were granted. */
function requester(permits: FairPermits) {
  const all: Request[] = [];
  const granted: Request[] = [];
  function request(owner: string): Request {
    const controller = new AbortController();
    const made: Request = {
      owner,
      number: all.length,
      state: 'waiting',
      release: () => {},
      abort: () => controller.abort(new Error('no longer wanted')),
    };
    all.push(made);
    permits.acquire(owner, controller.signal).then(
      (release) => {
        made.state = 'held';
        made.release = () => {
          made.state = 'released';
          release();
        };
        granted.push(made);
      },
      () => {
        made.state = 'aborted';
      },
    );
    return made;
  }
  const inState = (state: Request['state'], owner?: string) =>
    all.filter((one) => one.state === state && (owner === undefined || one.owner === owner));
  return { all, granted, request, inState };
}

/** Promises that were settled are seen. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

async function takeAll(permits: FairPermits, ownersAndCounts: [string, number][]) {
  const { request, inState } = requester(permits);
  for (const [owner, count] of ownersAndCounts) for (let n = 0; n < count; n++) request(owner);
  await settled();
  return (owner: string) => inState('held', owner).length;
}

describe('shares', () => {
  test('one owner gets half of the permits, each further one half of the rest', async () => {
    const held = await takeAll(createFairPermits({ total: 256 }), [
      ['a', 10_000],
      ['b', 10_000],
      ['c', 10_000],
      ['d', 1],
    ]);
    expect(['a', 'b', 'c', 'd'].map(held)).toEqual([128, 64, 32, 1]);
  });

  test.each([
    [1, 1, 0],
    [2, 1, 1],
    [3, 2, 1],
  ])('of %i permits one owner gets %i, another one %i', async (total, first, second) => {
    const held = await takeAll(createFairPermits({ total }), [
      ['a', 9],
      ['b', 9],
    ]);
    expect([held('a'), held('b')]).toEqual([first, second]);
  });

  test('a further limit of one owner may change', async () => {
    let maxPerOwner = 1;
    const { request, inState } = requester(createFairPermits({ total: 8, maxPerOwner: () => maxPerOwner }));
    const [first] = ['a', 'a', 'a', 'b'].map(request);
    await settled();
    expect(inState('held').map(({ owner }) => owner)).toEqual(['a', 'b']);
    maxPerOwner = 8;
    first!.release();
    await settled();
    expect(inState('held').map(({ owner }) => owner)).toEqual(['a', 'a', 'b']);
  });

  test('a permit that becomes free goes to the owner that holds the fewest', async () => {
    const permits = createFairPermits({ total: 4 });
    const { request, inState } = requester(permits);
    const [first] = ['a', 'a', 'b', 'c', 'd', 'a'].map(request);
    await settled();
    expect(inState('waiting').map(({ owner }) => owner)).toEqual(['d', 'a']);
    first!.release();
    await settled();
    expect(inState('waiting').map(({ owner }) => owner)).toEqual(['a']);
  });

  test.each([0, -1, 1.5, Number.NaN])('%d permits are refused', (total) => {
    expect(() => createFairPermits({ total })).toThrow(/total must be a positive integer/);
  });
});

describe('one request', () => {
  test('that is aborted beforehand or while it waits rejects with the reason and holds nothing', async () => {
    const permits = createFairPermits({ total: 1 });
    const reason = new Error('closing');
    await expect(permits.acquire('a', AbortSignal.abort(reason))).rejects.toBe(reason);
    const release = await permits.acquire('a');
    const controller = new AbortController();
    const waiting = permits.acquire('b', controller.signal);
    controller.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    expect(permits.stats()).toEqual({ total: 1, held: 1, waiting: 0, owners: 1 });
    release();
    expect(permits.stats()).toEqual({ total: 1, held: 0, waiting: 0, owners: 0 });
  });

  test('that is aborted after it was granted keeps its permit until it gives it back', async () => {
    const permits = createFairPermits({ total: 1 });
    const controller = new AbortController();
    const release = await permits.acquire('a', controller.signal);
    controller.abort();
    expect(permits.stats().held).toBe(1);
    release();
    expect(permits.stats().held).toBe(0);
  });

  test('that does not wait gets a permit at once or none', async () => {
    const permits = createFairPermits({ total: 4 });
    const held = [permits.tryAcquire('a'), permits.tryAcquire('a'), permits.tryAcquire('a')];
    expect(held.map((release) => release !== undefined)).toEqual([true, true, false]);
    expect(permits.tryAcquire('b')).toBeDefined();
    expect(permits.stats()).toEqual({ total: 4, held: 3, waiting: 0, owners: 2 });
    // It does not overtake a request of its owner that waits.
    const waiting = permits.acquire('a');
    held[0]!();
    await waiting;
    void permits.acquire('a');
    expect(permits.tryAcquire('a')).toBeUndefined();
  });

  test('that gives its permit back twice gives back one', async () => {
    const permits = createFairPermits({ total: 2 });
    const release = await permits.acquire('a');
    await permits.acquire('b');
    release();
    release();
    expect(permits.stats()).toMatchObject({ held: 1, owners: 1 });
  });
});

const anyStep = fc.oneof(
  fc.record({ kind: fc.constant('request' as const), owner: fc.constantFrom('a', 'b', 'c', 'd', 'e') }),
  fc.record({ kind: fc.constantFrom('release' as const, 'abort' as const), which: fc.nat() }),
);

describe('in any sequence of requests, releases and aborts', () => {
  test('the threshold holds, nobody waits for a permit that it may have, and none is lost', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 12 }),
        fc.array(anyStep, { maxLength: 80 }),
        async (total, steps) => {
          const permits = createFairPermits({ total });
          const { all, granted, request, inState } = requester(permits);
          const heldOf = (owner: string) => inState('held', owner).length;
          for (const step of steps) {
            const before = granted.length;
            if (step.kind === 'request') request(step.owner);
            else {
              const among = inState(step.kind === 'release' ? 'held' : 'waiting');
              among[step.which % Math.max(1, among.length)]?.[step.kind]();
            }
            await settled();

            const held = inState('held').length;
            const free = total - held;
            expect(held).toBeLessThanOrEqual(total);
            expect(permits.stats()).toEqual({
              total,
              held,
              waiting: inState('waiting').length,
              owners: new Set([...inState('held'), ...inState('waiting')].map(({ owner }) => owner)).size,
            });
            // One release makes room for one grant at most, and its owner kept to the threshold when it took it.
            expect(granted.length - before).toBeLessThanOrEqual(1);
            const last = granted.length > before ? granted.at(-1) : undefined;
            if (last) expect(heldOf(last.owner) - 1 === 0 || heldOf(last.owner) - 1 < free + 1).toBe(true);
            for (const { owner } of inState('waiting')) {
              expect(free === 0 || (heldOf(owner) > 0 && heldOf(owner) >= free)).toBe(true);
              // Nobody that holds more was preferred.
              if (last && step.kind !== 'request')
                expect(heldOf(owner)).toBeGreaterThanOrEqual(heldOf(last.owner) - 1);
            }
          }
          for (const owner of ['a', 'b', 'c', 'd', 'e']) {
            const numbers = granted.filter((one) => one.owner === owner).map(({ number }) => number);
            expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
          }
          for (let open = inState('held'); open.length > 0; open = inState('held')) {
            for (const one of open) one.release();
            await settled();
          }
          expect(all.filter(({ state }) => state === 'waiting')).toEqual([]);
          expect(permits.stats()).toEqual({ total, held: 0, waiting: 0, owners: 0 });
        },
      ),
      { numRuns: 200 },
    );
  });
});
