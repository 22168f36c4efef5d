import { setImmediate as nextTurn } from 'node:timers/promises';

/** Items of a piece, each with up to 1 KB. */
const PIECE = 256;

/**
 * Works on many items in order, with a turn of the event loop between pieces of 256 items or 256 KB. One piece takes no
 * turn.
 * @param work returns the characters that it has handled
 */
export async function inPieces<T>(items: Iterable<T>, work: (item: T) => number): Promise<void> {
  let left = PIECE;
  for (const item of items) {
    if (left <= 0) {
      await nextTurn();
      left = PIECE;
    }
    left -= 1 + work(item) / 1024;
  }
}
