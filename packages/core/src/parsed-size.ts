import { endOfString } from './json-depth.ts';

const [QUOTE, BACKSLASH, COLON, OPENING_BRACE] = [0x22, 0x5c, 0x3a, 0x7b];
const [MINUS, DOT, ZERO, NINE, E, LOWER_E, PLUS] = [0x2d, 0x2e, 0x30, 0x39, 0x45, 0x65, 0x2b];

/** Of an array or object with a first place, and of a further place. */
const BYTES = new Uint8Array(128);
for (const [character, bytes] of Object.entries({ '[': 56, '{': 56, ':': 8, ',': 8 })) {
  BYTES[character.charCodeAt(0)] = bytes;
}
/** A number that is no small integer. */
const NUMBER = 16;
const SMALL_DIGITS = 9;
/** A string, with its padding. */
const STRING = 16 + 7;
/** A key after others than before: its text, and the layout of the objects that have it. */
const NEW_KEY = 176;
/** A key that is an integer makes an array with up to 33 holes, or a hash table. */
const INDEX = 288;
const LARGE_INDEX = 144;
const LARGE_INDEX_DIGITS = 5;

/** Hashes of the last keys, each with those before it in its object. */
const known = new Uint32Array(4096);

/** A budget is so small a part of the heap that values of this many times the length of their texts fit. */
const USUAL_RATIO = 3;

/** Bytes that a JSON text takes of a budget once it is parsed: its length, and more only if it was made to take memory. */
export const parsedBytes = (text: string, size: number = parsedSize(text)): number =>
  Math.max(Buffer.byteLength(text), Math.ceil(size / USUAL_RATIO));

/**
 * An estimate of the heap that the parsed value of a JSON text takes, in bytes: up to 48 times the length of a hostile
 * text, and two to three times that of a usual one. Its weights are measured, and rather too high than too low; only many
 * equal objects of more than 128 keys take up to twice as much. Undefined for malformed JSON.
 * @param enough the rest of a text whose estimate exceeds this is not read
 */
export function parsedSize(text: string, enough = Number.POSITIVE_INFINITY): number {
  // With one character beyond Latin-1, a string takes two bytes for each.
  const width = isLatin1(text) ? 1 : 2;
  known.fill(0);
  let size = 0;
  let keys = 0;
  for (let i = 0; i < text.length && size <= enough; i += 1) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) {
      const start = i + 1;
      i = endOfString(text, start);
      if (isKey(text, i)) {
        const index = sizeOfIndex(text, start, i);
        size += index;
        if (index > 0) continue;
        for (let at = start; at < i; at += 1) keys = (Math.imul(keys, 31) + text.charCodeAt(at)) | 0;
        const hash = Math.imul(keys, 0x9e3779b1) >>> 0;
        if (known[hash >>> 20] !== hash) size += NEW_KEY + width * (i - start);
        known[hash >>> 20] = hash;
        // Strings of one character are shared.
      } else if (i - start > 1) size += STRING + width * (i - start);
    } else if (isDigit(code) || code === MINUS) {
      const start = i;
      let isInteger = code !== MINUS;
      for (; isOfNumber(text.charCodeAt(i + 1)); i += 1) isInteger &&= isDigit(text.charCodeAt(i + 1));
      if (!isInteger || i - start >= SMALL_DIGITS) size += NUMBER;
    } else {
      size += BYTES[code & 127]!;
      if (code === OPENING_BRACE) keys = 0;
    }
  }
  return size;
}

/** Usual texts are ASCII, which is known ten times as fast. */
const isLatin1 = (text: string): boolean =>
  !text.includes('\\u') && (Buffer.byteLength(text) === text.length || !/[^\0-\xff]/.test(text));

const isDigit = (code: number) => code >= ZERO && code <= NINE;

const isOfNumber = (code: number) =>
  isDigit(code) || code === DOT || code === MINUS || code === PLUS || code === E || code === LOWER_E;

function isKey(text: string, quote: number): boolean {
  let at = quote + 1;
  while (text.charCodeAt(at) <= 0x20) at += 1;
  return text.charCodeAt(at) === COLON;
}

/** Escaped digits are digits, too. */
function sizeOfIndex(text: string, start: number, end: number): number {
  let isEscaped = false;
  for (let at = start; at < end; at += 1) {
    const code = text.charCodeAt(at);
    if (code === BACKSLASH) isEscaped = true;
    else if (!isDigit(code) && !isEscaped) return 0;
  }
  if (start === end) return 0;
  return isEscaped || end - start < LARGE_INDEX_DIGITS ? INDEX : LARGE_INDEX;
}
