import { expect, test } from '@jest/globals';
import { isTooDeep, MAX_DEPTH } from './json-depth.ts';

const nested = (depth: number) => `${'{"a":['.repeat(depth / 2)}1${']}'.repeat(depth / 2)}`;

test('the deepest text that is allowed is told from the first that is not', () => {
  expect(isTooDeep(nested(MAX_DEPTH))).toBe(false);
  expect(isTooDeep(nested(MAX_DEPTH + 2))).toBe(true);
});

test('brackets in texts do not count, with any escapes', () => {
  const text = JSON.stringify(['['.repeat(1000), `\\"${'{'.repeat(1000)}`, { '[\\"[': '[' }]);
  expect(isTooDeep(text)).toBe(false);
  expect(isTooDeep(`["\\\\",${'['.repeat(1000)}`)).toBe(true);
});

test('a long list is not deep', () => {
  expect(isTooDeep(JSON.stringify(Array(10_000).fill([{}])))).toBe(false);
});
