import { describe, expect, test } from '@jest/globals';
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

  test('an endless cause chain or message is cut', () => {
    expect(toThrown(new Error('x'.repeat(1_000_000))).message.length).toBe(16 * 1024);
  });
});
