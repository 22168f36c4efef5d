import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  type Cache,
  type Candidate,
  type Decision,
  dedupe,
  MAX_CHANNELS,
  MAX_UNIQUE_IDS,
  type Strategy,
} from './dedupe.ts';

/** The ids kept by consecutive runs. */
function kept(strategy: Strategy, runs: (string | number | null)[][]): string[][] {
  let caches: Record<string, Cache> = {};
  return runs.map((ids) => {
    const decision = dedupe(
      strategy,
      caches,
      ids.map((id) => ({ id, name: '' })),
    );
    caches = JSON.parse(JSON.stringify(decision.caches));
    return ids.filter((_, i) => decision.verdicts[i] === 'keep').map(String);
  });
}

const strategies: Strategy[] = ['unique', 'greatest', 'last'];
const anyId = fc.oneof(fc.integer({ min: -5, max: 30 }), fc.constantFrom('a', 'b', 'c', '7', '008'));
const anyCandidate = fc.record<Candidate>({
  id: fc.option(anyId),
  name: fc.constantFrom('', 'side', '__proto__', 'constructor'),
});
const anyRuns = fc.array(fc.array(anyCandidate, { maxLength: 12 }), { maxLength: 12 });

describe('every strategy', () => {
  test('without a strategy all candidates are kept, even without ids', () => {
    const decision = dedupe(null, {}, [
      { id: 1, name: '' },
      { id: 1, name: '' },
      { id: null, name: '' },
    ]);
    expect(decision).toEqual({ verdicts: ['keep', 'keep', 'keep'], caches: {} });
  });

  test('0 is an id, null is not', () => {
    for (const strategy of strategies) {
      const { verdicts } = dedupe(strategy, {}, [
        { id: null, name: '' },
        { id: 0, name: '' },
      ]);
      expect(verdicts).toEqual(['no-id', 'keep']);
    }
  });

  test('channels are independent of each other', () => {
    fc.assert(
      fc.property(fc.constantFrom(...strategies), anyRuns, (strategy, runs) => {
        let all: Record<string, Cache> = {};
        const alone = new Map<string, Record<string, Cache>>();
        for (const run of runs) {
          const together = dedupe(strategy, all, run);
          all = together.caches;
          for (const name of new Set(run.map((one) => one.name))) {
            const decision = dedupe(
              strategy,
              alone.get(name) ?? {},
              run.filter((one) => one.name === name),
            );
            alone.set(name, decision.caches);
            expect(together.verdicts.filter((_, i) => run[i]!.name === name)).toEqual(decision.verdicts);
          }
        }
      }),
    );
  });

  test('caches are not mutated, and survive JSON', () => {
    fc.assert(
      fc.property(fc.constantFrom(...strategies), anyRuns, (strategy, runs) => {
        let caches: Record<string, Cache> = {};
        for (const run of runs) {
          const before = JSON.stringify(caches);
          const decision = dedupe(strategy, caches, run);
          expect(JSON.stringify(caches)).toBe(before);
          expect(dedupe(strategy, JSON.parse(before), run).verdicts).toEqual(decision.verdicts);
          caches = decision.caches;
        }
      }),
    );
  });
});

describe('unique', () => {
  test('agrees with a plain list of the last 100 ids, first in first out', () => {
    const id = fc.integer({ min: 0, max: 140 });
    fc.assert(
      fc.property(fc.array(fc.array(id, { maxLength: 60 }), { maxLength: 12 }), (runs) => {
        const known: number[] = [];
        const expected = runs.map((ids) =>
          ids.filter((one) => {
            if (known.includes(one)) return false;
            known.push(one);
            if (known.length > 100) known.shift();
            return true;
          }),
        );
        expect(kept('unique', runs)).toEqual(expected.map((ids) => ids.map(String)));
      }),
    );
  });

  test('a hit keeps its place, so the oldest id goes first', () => {
    const hundred = Array.from({ length: MAX_UNIQUE_IDS }, (_, i) => i + 1);
    expect(kept('unique', [hundred, [1, 101, 2], [1, 2], [4, 3]]).slice(1)).toEqual([
      ['101'],
      ['1', '2'],
      ['3'],
    ]);
  });

  test('ids that were cut in the middle of different emojis differ', () => {
    const cut = ['\u{1F600}', '\u{10000}', '\u{1F600}x'].map((text) => text.slice(0, 1));
    expect(
      kept('unique', [
        [cut[0]!, cut[1]!],
        ['a', cut[2]!, '\ufffd'],
      ]),
    ).toEqual([
      [cut[0], cut[1]],
      ['a', '\ufffd'],
    ]);
  });

  test('a number and its text are one id', () => {
    expect(kept('unique', [[1, '1', 0, '0', '01']])).toEqual([['1', '0', '01']]);
  });
});

describe('greatest', () => {
  test('keeps exactly what is above the maximum known before the run', () => {
    const id = fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n });
    fc.assert(
      fc.property(fc.array(fc.array(id, { maxLength: 8 }), { maxLength: 8 }), (runs) => {
        let maximum: bigint | undefined;
        const expected = runs.map((ids) => {
          const before = maximum;
          for (const one of ids) if (maximum === undefined || one > maximum) maximum = one;
          return ids.filter((one) => before === undefined || one > before).map(String);
        });
        expect(
          kept(
            'greatest',
            runs.map((ids) => ids.map(String)),
          ),
        ).toEqual(expected);
      }),
    );
  });

  test('decimals compare as numbers, other ids as strings', () => {
    expect(kept('greatest', [['1.5'], ['1.25', 1.75], ['10']])).toEqual([['1.5'], ['1.75'], ['10']]);
    expect(kept('greatest', [['b-10'], ['b-2', 'a-9'], ['b-2']])).toEqual([['b-10'], ['b-2'], []]);
    expect(kept('greatest', [[''], ['0']])).toEqual([[''], ['0']]);
  });
});

describe('last', () => {
  test('keeps what follows the last emitted id, and everything when it is not there', () => {
    const runs = [['x', 'y', 'z'], ['y', 'z', 'v', 'w'], ['v', 'w'], [], ['p', 'y'], ['y', 'end']];
    expect(kept('last', runs)).toEqual([['x', 'y', 'z'], ['v', 'w'], [], [], ['p', 'y'], ['end']]);
  });

  test('a feed that grows at its end is emitted once, with any window per run', () => {
    const growing = fc.array(fc.nat({ max: 5 }), { minLength: 1, maxLength: 10 });
    fc.assert(
      fc.property(growing, fc.nat({ max: 5 }), (steps, overlap) => {
        let length = 0;
        const runs = steps.map((step) => {
          const from = Math.max(0, length - 1 - overlap);
          length += step;
          return Array.from({ length: length - from }, (_, i) => from + i);
        });
        const emitted = kept('last', runs).flat();
        expect(emitted).toEqual(Array.from({ length }, (_, i) => String(i)));
      }),
    );
  });
});

test.each<[string, (n: number) => string]>([
  ['words', (n) => `c${n}`],
  ['integers', (n) => String(1000 + n)],
  ['integers in descending order', (n) => String(5000 - n)],
])('the most recently used channels are remembered; their names are %s', (_names, nameOf) => {
  const emits = (names: string[]) => names.map((name) => ({ id: 'a', name }));
  const remembered = ({ caches }: Decision) => new Set(Object.keys(JSON.parse(JSON.stringify(caches))));
  const names = Array.from({ length: MAX_CHANNELS + 50 }, (_, n) => nameOf(n));
  const first = dedupe('unique', { other: { unique: '' } }, emits(names));
  expect(remembered(first)).toEqual(new Set(names.slice(50)));
  // A reused channel becomes the newest.
  const reused = dedupe('unique', first.caches, emits([names[50]!, 'new']));
  expect(reused.verdicts).toEqual(['known', 'keep']);
  expect(remembered(reused)).toEqual(new Set([...names.slice(52), names[50]!, 'new']));
});

test('caches do not change when the same channels get known ids', () => {
  const emits = (names: string[]) => names.map((name) => ({ id: 'a', name }));
  const { caches } = dedupe('unique', {}, emits(['12', '7', 'x']));
  for (const names of [['12', '7', 'x'], ['x', '12', '7'], ['x']])
    expect(dedupe('unique', caches, emits(names)).caches).toBe(caches);
});

test('caches of an earlier version, without the order of use, are read and go first', () => {
  const ids = (name: string) => [{ id: 'a', name }];
  const names = Array.from({ length: MAX_CHANNELS }, (_, n) => String(n));
  const { unique } = dedupe('unique', {}, ids('')).caches['']!;
  const old = Object.fromEntries(names.map((name) => [name, { unique: unique! }]));
  const known = dedupe('unique', old, ids('0'));
  expect(known.verdicts).toEqual(['known']);
  const added = dedupe('unique', known.caches, ids('new'));
  expect(new Set(Object.keys(added.caches))).toEqual(new Set(['0', ...names.slice(2), 'new']));
});

test('a cache that an earlier version has written since is that of the channel used last', () => {
  const ids = (name: string) => [{ id: 'a', name }];
  let caches: Record<string, Cache> = {};
  for (let n = 0; n < MAX_CHANNELS; n++) caches = dedupe('unique', caches, ids(`c${n}`)).caches;
  const { used: _, ...written } = caches.c7!;
  const added = dedupe('unique', { ...caches, c7: written }, ids('new'));
  expect(Object.keys(added.caches)).toContain('c7');
  expect(Object.keys(added.caches)).not.toContain('c0');
});

test('ids survive a change of the strategy and back', () => {
  let caches: Record<string, Cache> = {};
  const run = (strategy: Strategy, ids: number[]) => {
    const decision = dedupe(
      strategy,
      caches,
      ids.map((id) => ({ id, name: '' })),
    );
    caches = decision.caches;
    return ids.filter((_, i) => decision.verdicts[i] === 'keep');
  };
  for (const strategy of strategies) expect(run(strategy, [1, 2, 3])).toEqual([1, 2, 3]);
  for (const strategy of strategies) expect(run(strategy, [1, 2, 3])).toEqual([]);
  for (const strategy of [...strategies].reverse()) expect(run(strategy, [3, 4])).toEqual([4]);
});

test.each([
  [32, 'known'],
  [33, 'keep'],
])(
  'beside the ids of other strategies, greatest remembers one of up to 32 characters (%i: %s)',
  (length, verdict) => {
    const ids = Array.from({ length: MAX_UNIQUE_IDS }, (_, n) => String(n).padStart(length, '0'));
    const names = Array.from({ length: MAX_CHANNELS }, (_, n) => `c${n}`);
    let caches: Record<string, Cache> = {};
    for (const strategy of ['greatest', 'last', 'unique'] as const)
      for (const name of names)
        caches = dedupe(
          strategy,
          caches,
          ids.map((id) => ({ id, name })),
        ).caches;
    expect(JSON.stringify(caches).length).toBeLessThan(MAX_CHANNELS * 1300);
    const { verdicts } = dedupe('greatest', caches, [{ id: ids[0]!, name: 'c0' }]);
    expect(verdicts).toEqual([verdict]);
    expect(dedupe('last', caches, [{ id: ids.at(-1)!, name: 'c0' }]).verdicts).toEqual(['known']);
  },
);

test('the caches of all channels stay small with the longest ids', () => {
  const long = (n: number) => String(n).padStart(1024, '9');
  for (const strategy of strategies) {
    let caches: Record<string, Cache> = {};
    for (let channel = 0; channel < MAX_CHANNELS; channel++) {
      const ids = Array.from({ length: MAX_UNIQUE_IDS }, (_, n) => ({ id: long(n), name: `c${channel}` }));
      caches = dedupe(strategy, caches, ids).caches;
    }
    expect(JSON.stringify(caches).length).toBeLessThan(MAX_CHANNELS * 1300);
    const again = dedupe(strategy, caches, [{ id: long(MAX_UNIQUE_IDS - 1), name: `c${MAX_CHANNELS - 1}` }]);
    expect(again).toEqual({ verdicts: ['known'], caches });
    expect(again.caches).toBe(caches);
  }
});
