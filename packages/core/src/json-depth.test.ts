import { expect, test } from '@jest/globals';
import fc from 'fast-check';
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

test('any text of quotes, backslashes and brackets is as deep as its characters one by one say', () => {
  const oneByOne = (text: string) => {
    let [depth, deepest, inString] = [0, 0, false];
    for (let i = 0; i < text.length; i += 1) {
      if (inString && text[i] === '\\') i += 1;
      else if (text[i] === '"') inString = !inString;
      else if (!inString && '[{'.includes(text[i]!)) deepest = Math.max(deepest, ++depth);
      else if (!inString && ']}'.includes(text[i]!)) depth -= 1;
    }
    return deepest > MAX_DEPTH;
  };
  const before = `${' '.repeat(2 * MAX_DEPTH)}${'['.repeat(MAX_DEPTH)}`;
  // A backslash outside of a string is malformed, so each text begins within one.
  const text = fc.string({ unit: fc.constantFrom('"', '\\\\', '\\"', '[', ']', 'a'), maxLength: 30 });
  fc.assert(
    fc.property(text, (one) => {
      const quoted = `${before}"${one.replace(/"(?=[^"]*$)/, '')}`;
      const isMalformed = /^[^"]*(?:"(?:[^"\\]|\\.)*"[^"\\]*)*\\/.test(quoted);
      if (!isMalformed) expect(isTooDeep(quoted)).toBe(oneByOne(quoted));
    }),
  );
});
