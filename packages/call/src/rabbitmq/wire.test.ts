import { expect, test } from '@jest/globals';
import { CallFailed } from '../port.ts';
import { decodeAnswer } from './wire.ts';

test.each(['', '{', 'null', '1'])('a malformed answer is a CallFailed: %j', (text) => {
  expect(() => decodeAnswer(Buffer.from(text), 'hook')).toThrow(CallFailed);
});
