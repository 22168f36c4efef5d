import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { decodeUtf8, withoutByteOrderMark } from './utf8.ts';

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function expected(bytes: Buffer): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

test('bytes are decoded as by a TextDecoder that refuses what is not UTF-8', () => {
  const texts = fc.string({ unit: 'binary' }).map((text) => Buffer.from(text));
  const parts = fc.oneof(
    texts,
    fc.uint8Array().map((bytes) => Buffer.from(bytes)),
    fc
      .constantFrom('efbbbf', 'c080', 'eda080', 'f4908080', 'e282', 'f09f9880')
      .map((hex) => Buffer.from(hex, 'hex')),
  );
  fc.assert(
    fc.property(fc.array(parts, { maxLength: 4 }), (all) => {
      const bytes = Buffer.concat(all);
      expect(decodeUtf8(bytes)).toBe(expected(bytes));
    }),
    { examples: [[[]], [[Buffer.from('\ufeff{}')]], [[Buffer.from('\ud83d\ude00')]]] },
  );
});

test('one byte order mark is removed from the start of a text', () => {
  expect(withoutByteOrderMark('\ufeff\ufeff{}\ufeff')).toBe('\ufeff{}\ufeff');
  expect(withoutByteOrderMark('{}')).toBe('{}');
  expect(withoutByteOrderMark('')).toBe('');
});
