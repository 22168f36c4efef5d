import { setTimeout } from 'node:timers/promises';

/** Items of a piece, each with up to 1 KB. */
const PIECE = 256;
/** A request takes about ten turns of the event loop; without pauses each of them would wait for a piece. */
const PAUSE_MS = 2;
/** Added to the pause between steps on a text, since a step takes about as long: a request is delayed by one of them. */
const PAUSE_MS_PER_MB = 2;
const PART_CHARS = 64 * 1024;

/**
 * Works on many items in order, with pauses after pieces of 256 items or 256 KB, so that other work goes on.
 * @param work returns the characters that it has handled
 */
export async function inPieces<T>(items: Iterable<T>, work: (item: T) => number): Promise<void> {
  let left = PIECE;
  for (const item of items) {
    left -= 1 + work(item) / 1024;
    if (left > 0) continue;
    await setTimeout(PAUSE_MS);
    left = PIECE;
  }
}

/** Joins many texts with commas, with the pauses of `inPieces`. Keeps few of them: the garbage collector copies each. */
export async function joinInPieces(texts: Iterable<string>): Promise<string> {
  const joined: string[] = [];
  let piece: string[] = [];
  const join = () => {
    joined.push(piece.join(','));
    piece = [];
  };
  await inPieces(texts, (text) => {
    piece.push(text);
    if (piece.length === PIECE) join();
    return text.length;
  });
  if (piece.length > 0) join();
  return joined.join(',');
}

/** Pauses between two steps on a text that is larger than a piece. @param size characters or bytes */
export async function pauseIfLarge(size: number): Promise<void> {
  if (size > PIECE * 1024) await setTimeout(PAUSE_MS + (PAUSE_MS_PER_MB * size) / 1024 ** 2);
}

/** Works on a text in order, in parts of about 64 KB, with the pauses of `inPieces`. */
export const textInPieces = (text: string, work: (part: string) => void): Promise<void> =>
  inPieces(piecesOf(text, PART_CHARS), (part) => {
    work(part);
    return part.length;
  });

/** Parts of a text of `chars` characters, or one more: none ends within a surrogate pair. */
export function* piecesOf(text: string, chars: number): Generator<string> {
  for (let at = 0; at < text.length; ) {
    const end = at + chars;
    const isHighSurrogate = (text.charCodeAt(end - 1) & 0xfc00) === 0xd800;
    const next = isHighSurrogate ? end + 1 : end;
    yield text.slice(at, next);
    at = next;
  }
}
