import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { charsOfPacked, packText, unpackText } from './packed-text.ts';

test('a text is the same after it was packed, with any characters', async () => {
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: 'binary' }), fc.constantFrom(1, 50_000), async (text, times) => {
      const long = text.repeat(Math.min(times, Math.ceil(200_000 / (text.length + 1))));
      const packed = await packText(long);
      expect(await unpackText(packed)).toBe(long);
      expect(charsOfPacked(packed)).toBe(long.length);
    }),
  );
});

test.each(['zstd,', 'zstd,utf8,AAAA', `\ud800${'a'.repeat(70_000)}`])(
  'a text that looks packed, or is not Unicode, is the same, too',
  async (text) => {
    expect(await unpackText(await packText(text))).toBe(text);
  },
);

test('a long text takes less room, a short one is kept readable', async () => {
  expect((await packText('export const a = 1;\n'.repeat(10_000))).length).toBeLessThan(2_000);
  expect(await packText('export default {}')).toBe('export default {}');
  expect(await unpackText('{"code":"stored before"}')).toBe('{"code":"stored before"}');
});
