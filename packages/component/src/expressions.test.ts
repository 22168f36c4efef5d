import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ExpressionError, expressionsIn, fillIn, parsePath } from './expressions.ts';

const data: Record<string, unknown> = {
  trigger: { event: { name: 'Ann', list: [1, { 'a b': 2 }], none: null } },
  first: { $return_value: { n: 41, flag: false } },
};
const scope = (name: string) => (Object.hasOwn(data, name) ? data[name] : undefined);
const fill = (value: unknown) => fillIn(value, scope, () => {});

test('an expression that is the whole value keeps its type', () => {
  expect(fill('{{steps.first.$return_value.n}}')).toBe(41);
  expect(fill('{{ steps.first.$return_value }}')).toEqual({ n: 41, flag: false });
  expect(fill('{{steps.trigger.event.list[1]["a b"]}}')).toBe(2);
  expect(fill('{{steps.trigger.event.none}}')).toBeNull();
  expect(fill('{{steps.nobody.event}}')).toBeUndefined();
});

test('within a text it is interpolated', () => {
  expect(fill('n is {{steps.first.$return_value.n}} for {{steps.trigger.event.name}}.')).toBe(
    'n is 41 for Ann.',
  );
  expect(fill('{{steps.first.$return_value}}!')).toBe('{"n":41,"flag":false}!');
  expect(fill('[{{steps.nobody.x}}{{steps.trigger.event.none}}]')).toBe('[]');
});

test('objects and arrays are filled in; other values stay as they are', () => {
  expect(fill({ a: ['{{steps.trigger.event.name}}', 1], b: { c: '{{' } })).toEqual({
    a: ['Ann', 1],
    b: { c: '{{' },
  });
  expect(expressionsIn({ a: ['{{x}}', { b: 'y {{z}}' }] })).toEqual(['x', 'z']);
});

describe('an expression is never run as code', () => {
  test.each([
    '40 + 2',
    'process.pid',
    'steps.trigger.event.constructor("return 42")()',
    'steps',
    'steps.a-b',
    'steps[first]',
    '',
  ])('%s is refused', (expression) => {
    expect(() => fill(`{{${expression}}}`)).toThrow(ExpressionError);
    expect(() => fill(`text {{${expression}}}`)).toThrow(ExpressionError);
  });

  test.each([
    'constructor',
    '__proto__',
    'toString',
    'event.constructor',
    'event.name.length',
    'event.__proto__',
  ])('steps.trigger.%s reaches no prototype', (path) => {
    expect(fill(`{{steps.trigger.${path}}}`)).toBeUndefined();
  });

  test('steps.__proto__ and steps.constructor reach no prototype', () => {
    expect(fill('{{steps.__proto__.toString}}')).toBeUndefined();
    expect(fill('{{steps.constructor.name}}')).toBeUndefined();
  });
});

test('any text gives a value or an ExpressionError, in linear time', () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      try {
        fill(text);
      } catch (error) {
        if (!(error instanceof ExpressionError)) throw error;
      }
    }),
  );
  const long = '{{'.repeat(2 ** 20);
  expect(fill(long)).toBe(long);
});

test('what expressions add is bounded by the caller', () => {
  let left = 10;
  const spend = (chars: number) => {
    left -= chars;
    if (left < 0) throw new RangeError('too much');
  };
  expect(() => fillIn('{{steps.trigger.event}}'.repeat(2), scope, spend)).toThrow('too much');
});

test('a path has segments of fields and indexes', () => {
  expect(parsePath(" steps.a.$b[0]['c d'] ")).toEqual(['a', '$b', '0', 'c d']);
  expect(parsePath('stepsa')).toBeUndefined();
});
