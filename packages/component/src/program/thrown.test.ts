import { describe, expect, test } from '@jest/globals';
import { MAX_CAUSE_CHARS } from './cause.ts';
import { toThrown } from './thrown.ts';

describe('toThrown', () => {
  test.each([
    [new TypeError('wrong'), { name: 'TypeError', message: 'wrong' }],
    ['text', { name: 'Error', message: 'text' }],
    [undefined, { name: 'Error', message: 'undefined was thrown.' }],
    [null, { name: 'Error', message: 'null' }],
    [{ code: 5 }, { name: 'Error', message: '{"code":5}' }],
    [Object.create(null), { name: 'Error', message: '{}' }],
    [Symbol('s'), { name: 'Error', message: 'Symbol(s)' }],
    [
      {
        message: {
          toString() {
            throw new Error('hostile');
          },
        },
        name: 'X',
      },
      { name: 'X', message: '' },
    ],
    [
      new Proxy(
        {},
        {
          has() {
            throw new Error('hostile');
          },
        },
      ),
      { message: 'An object was thrown that cannot be read.' },
    ],
  ])('%# is read', (thrown, expected) => {
    const error = toThrown(thrown);
    expect(error).toMatchObject(expected);
    expect(typeof error.stack).toBe('string');
  });

  test('causes are printed as by Node.js, with simple fields, and nested', () => {
    const connect = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), {
      code: 'ECONNREFUSED',
      config: { headers: { authorization: 'Bearer of-an-account' } },
    });
    const { cause } = toThrown(
      new TypeError('no answer', { cause: new Error('fetch failed', { cause: connect }) }),
    );
    expect(cause).toMatch(
      /^Error: fetch failed\n +at .*\[cause\]: Error: connect ECONNREFUSED 127\.0\.0\.1:1\n.*code: 'ECONNREFUSED'/s,
    );
    expect(cause).not.toContain('of-an-account');
    expect(toThrown(new Error('x', { cause: 'a text' })).cause).toBe("'a text'");
    expect(toThrown(new AggregateError([connect], 'all failed')).cause).toContain('ECONNREFUSED');
    expect(toThrown(new Error('x'))).not.toHaveProperty('cause');
  });

  test('a cause that is endless, large or hostile is cut or left out', () => {
    const circular = new Error('circular');
    circular.cause = circular;
    expect(toThrown(circular).cause!.length).toBeLessThanOrEqual(MAX_CAUSE_CHARS);
    expect(toThrown(new Error('x', { cause: 'y'.repeat(1e6) })).cause).toHaveLength(MAX_CAUSE_CHARS);
    const hostile = new Error('x');
    Object.defineProperty(hostile, 'cause', {
      get() {
        throw new Error('hostile');
      },
    });
    expect(toThrown(hostile)).toMatchObject({ message: 'x' });
    const inspected = { [Symbol.for('nodejs.util.inspect.custom')]: () => 'ran' };
    expect(toThrown(new Error('x', { cause: inspected })).cause).not.toBe('ran');
  });

  test('a cause is cut at its end only', () => {
    const long = 'y'.repeat(5000);
    for (const cause of [long, [long], Object.assign(new Error('x'), { body: long }), { body: [long] }]) {
      expect(toThrown(new Error('x', { cause })).cause).toContain(long);
    }
    const cause = Object.assign(new Error('x'), { one: long, two: long });
    expect(toThrown(new Error('x', { cause })).cause).toMatch(/yyy$/);
  });

  test('stack and cause are cleaned before they are cut', () => {
    const text = 'x-'.repeat(100_000);
    const error = new Error('message', { cause: new Error(text) });
    error.stack = text;
    const { stack, cause } = toThrown(error, (given) => given.replaceAll('x', ''));
    expect(stack).toBe('-'.repeat(16 * 1024));
    expect(cause).toHaveLength(MAX_CAUSE_CHARS);
    expect(cause).not.toContain('x');
  });

  test('an endless cause chain or message is cut', () => {
    expect(toThrown(new Error('x'.repeat(1_000_000))).message.length).toBe(16 * 1024);
  });
});
