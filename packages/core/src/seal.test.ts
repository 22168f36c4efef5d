import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createSeal } from './seal.ts';

test('a sealed text opens with the same context only', () => {
  const seal = createSeal(['root']);
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.string(), (text, context) => {
      fc.pre(text.isWellFormed());
      const sealed = seal.seal(text, context);
      expect(seal.open(sealed, context)).toBe(text);
      expect(() => seal.open(sealed, `${context}!`)).toThrow('cannot be opened');
    }),
  );
});

test('sealing is randomized and hides the plain text', () => {
  const seal = createSeal(['root']);
  const sealed = seal.seal('a secret value', 'x');
  expect(sealed).not.toBe(seal.seal('a secret value', 'x'));
  expect(Buffer.from(sealed.slice(3), 'base64url').includes('a secret value')).toBe(false);
});

test('a rotated key opens old texts and seals no new ones', () => {
  const [old, rotated, next] = [createSeal(['old']), createSeal(['new', 'old']), createSeal(['new'])];
  expect(rotated.open(old.seal('text', 'x'), 'x')).toBe('text');
  expect(next.open(rotated.seal('text', 'x'), 'x')).toBe('text');
  expect(() => next.open(old.seal('text', 'x'), 'x')).toThrow('cannot be opened');
});

test('a changed or malformed text is refused', () => {
  const seal = createSeal(['root']);
  const sealed = seal.seal('text', 'x');
  const bytes = Buffer.from(sealed.slice(3), 'base64url');
  bytes[bytes.length - 1]! ^= 1;
  const changed = `v1.${bytes.toString('base64url')}`;
  for (const text of ['', 'v1.', 'v2.abc', 'text', changed, sealed.slice(0, 12)]) {
    expect(() => seal.open(text, 'x')).toThrow('cannot be opened');
  }
});

test('keys of different purposes differ', () => {
  const seal = createSeal(['a', 'b']);
  const [first, second] = seal.keysFor('principal');
  expect([first!.length, second!.length]).toEqual([32, 32]);
  expect(first!.equals(seal.keysFor('other')[0]!)).toBe(false);
  expect(second!.equals(createSeal(['b']).keysFor('principal')[0]!)).toBe(true);
});
