import { randomBytes } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { CallFailed } from '../port.ts';
import { decode, decodeAnswer, encode } from './wire.ts';

test.each(['', '{', 'null', '1', '('])('a malformed answer is a CallFailed: %j', (text) => {
  expect(() => decodeAnswer(Buffer.from(text), 'hook')).toThrow(CallFailed);
});

test('large messages are compressed', () => {
  const message = { code: 'export default { name: "é" };\n'.repeat(1_000_000) };
  const content = encode(message);
  expect(content.length).toBeLessThan(1024 * 1024);
  expect(decode(content)).toEqual(message);
});

test('a message that the broker would refuse is not encoded', () => {
  expect(() => encode(randomBytes(18 * 1024 * 1024).toString('base64'))).toThrow(RangeError);
});
