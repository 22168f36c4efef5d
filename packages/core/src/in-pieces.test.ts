import { expect, test } from '@jest/globals';
import { inPieces, joinInPieces, pauseIfLarge } from './in-pieces.ts';

/** The steps of `work` and another task of the event loop, in order. */
async function orderOf(work: (note: (step: string) => void) => Promise<void>): Promise<string[]> {
  const order: string[] = [];
  // It expires before the timer of a pause.
  setTimeout(() => order.push('other'), 1);
  await work((step) => order.push(step));
  order.push('resolved');
  return order;
}

test('a large item is followed by a turn of other work, also the last one', async () => {
  const order = await orderOf((note) =>
    inPieces(['large'], (item) => {
      note(item);
      return 300 * 1024;
    }),
  );
  expect(order).toEqual(['large', 'other', 'resolved']);
});

test('many small items are divided by turns of other work, few are not', async () => {
  const run = (count: number) =>
    orderOf((note) =>
      inPieces(Array(count).keys(), (n) => {
        if (n === 0 || n === count - 1) note(`item ${n}`);
        return 0;
      }),
    );
  expect(await run(1000)).toEqual(['item 0', 'other', 'item 999', 'resolved']);
  expect(await run(100)).toEqual(['item 0', 'item 99', 'resolved']);
});

test('steps on a large text are divided by a turn of other work, on a small one they are not', async () => {
  expect(await orderOf(() => pauseIfLarge(6e6))).toEqual(['other', 'resolved']);
  expect(await orderOf(() => pauseIfLarge(1000))).toEqual(['resolved']);
});

test.each([0, 1, 255, 256, 257, 1000])('%i texts are joined as by Array.join', async (count) => {
  const texts = Array.from({ length: count }, (_, n) => `text ${n}`);
  expect(await joinInPieces(texts.values())).toBe(texts.join(','));
});

test('the joining of many texts is divided by turns of other work', async () => {
  const order = await orderOf(async () => void (await joinInPieces(Array(1000).fill('text').values())));
  expect(order).toEqual(['other', 'resolved']);
});

test('empty texts are joined, too', async () => {
  expect(await joinInPieces(Array(300).fill('').values())).toBe(','.repeat(299));
});
