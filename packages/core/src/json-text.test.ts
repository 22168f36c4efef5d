import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { JsonText, jsonTextOf, stringify } from './json-text.ts';

test('texts at any place give the same JSON as their values', () => {
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc
        .jsonValue()
        .map((json) => ({ plain: json, withTexts: new JsonText(JSON.stringify(json)) as unknown })),
      fc.array(tie('value') as fc.Arbitrary<Pair>).map((pairs) => ({
        plain: pairs.map(({ plain }) => plain),
        withTexts: pairs.map(({ withTexts }) => withTexts),
      })),
      fc.dictionary(fc.string(), tie('value') as fc.Arbitrary<Pair>).map((pairs) => ({
        plain: mapValues(pairs, ({ plain }) => plain),
        withTexts: mapValues(pairs, ({ withTexts }) => withTexts),
      })),
    ),
  })) as { value: fc.Arbitrary<Pair> };
  fc.assert(
    fc.property(value, ({ plain, withTexts }) => {
      expect(stringify([withTexts])).toBe(JSON.stringify([plain]));
      expect(JSON.stringify([withTexts])).toBe(JSON.stringify([plain]));
    }),
  );
});

interface Pair {
  plain: unknown;
  withTexts: unknown;
}

const mapValues = (pairs: Record<string, Pair>, of: (pair: Pair) => unknown) =>
  Object.fromEntries(Object.entries(pairs).map(([key, pair]) => [key, of(pair)]));

test('the text of a value is not changed', () => {
  expect(stringify({ a: new JsonText('{"b": 1e400, "b":2}'), c: null })).toBe(
    '{"a":{"b": 1e400, "b":2},"c":null}',
  );
});

test('an error leaves nothing to the next call', () => {
  const bad = { text: new JsonText('1'), toJSON: () => [new JsonText('2'), 3n] };
  expect(() => stringify(bad)).toThrow(TypeError);
  expect(JSON.stringify({ a: new JsonText('1') })).toBe('{"a":1}');
  expect(stringify({ a: new JsonText('1') })).toBe('{"a":1}');
});

test('a long text in pieces has the same JSON text', async () => {
  const text = fc.array(fc.string({ unit: 'binary', minLength: 1 }), { minLength: 1, maxLength: 20 });
  await fc.assert(
    fc.asyncProperty(text, fc.integer({ min: 1, max: 20_000 }), async (some, times) => {
      const long = some.join('').repeat(times);
      expect((await jsonTextOf(long)).text === JSON.stringify(long)).toBe(true);
    }),
    { numRuns: 50 },
  );
});
