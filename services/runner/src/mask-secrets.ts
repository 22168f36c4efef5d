import type { ThrownError } from '@wellspring/component/program/program-types';
import { LIMITS } from '@wellspring/contract/limits';

/**
 * Replaces the values of secret props in a text; see createMask.
 * @param isCut the end of the text may be missing: its last characters are masked, too, if a secret begins with them.
 *   Default: `mayBeCut(text)`
 * @param budget shared with other masks of the same text; default: one of its own
 */
export type Mask = (text: string, isCut?: boolean, budget?: MaskBudget) => string;

/** Characters that may still be compared. */
export interface MaskBudget {
  left: number;
}

/** Whether a text may have been cut at a limit of characters or bytes. A character of UTF-8 has at most four bytes. */
export const mayBeCut = (text: string, limit: number = LIMITS.logLine): boolean =>
  Buffer.byteLength(text) > limit - 4;

const MASK = '********';
/** Shorter values are not masked: they match unrelated text. */
const MIN_SECRET_LENGTH = 4;
/** Minimum length at which a line of a multi-line secret (a private key) is masked on its own. */
const MIN_LINE_LENGTH = 8;
/** Shorter parts of an encoded secret, which has four bytes, are not masked: unrelated Base64 contains them, too. */
const MIN_BASE64_LENGTH = 6;
/** Larger values are masked only in plain form, not in their encodings. */
const MAX_ENCODED = 8 * 1024;
/** Characters compared before the whole needle is. */
const PREFIX_LENGTH = 16;
/** Characters that one call may compare, per character of the text and at least; only hostile values need more. */
const COMPARED_PER_CHARACTER = 16;
const MIN_COMPARED = 16 * 1024;
/** Secrets and their lines, and their characters. More of them would occupy the main thread: all texts are then hidden. */
const MAX_PARTS = 1000;
const MAX_CHARS = 512 * 1024;
const TOO_SLOW = '(not shown: the secret props could not be masked in this text)';

export const noMask: Mask = (text) => text;

/**
 * Base64 of a secret within a longer value, such as `user:secret`: for each position among the three bytes of a group,
 * the characters whose six bits are all of the secret.
 */
function base64Within(secret: Buffer): string[] {
  return [0, 1, 2].flatMap((before) => {
    const value = Buffer.concat([Buffer.alloc(before), secret]);
    const [from, to] = [Math.ceil((before * 8) / 6), Math.floor((value.length * 8) / 6)];
    if (to - from < MIN_BASE64_LENGTH) return [];
    return (['base64', 'base64url'] as const).map((form) => value.toString(form).slice(from, to));
  });
}

/** A secret as it is printed plain: as a whole, or line by line. */
const partsOf = (secret: string): string[] => [
  secret,
  ...secret
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line.length >= MIN_LINE_LENGTH),
];

/** The other forms in which a secret is printed: in JSON, in URLs, in Base64, in hexadecimal. */
function encodingsOf(secret: string): string[] {
  if (secret.length > MAX_ENCODED) return [];
  const url = encodeURIComponent(secret.toWellFormed());
  const bytes = Buffer.from(secret);
  return [
    JSON.stringify(secret).slice(1, -1),
    url,
    new URLSearchParams([['', secret]]).toString().slice(1),
    url.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
    // Its last character, too, which holds fewer bits of the secret. Without padding, which may be missing.
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('base64url'),
    ...base64Within(bytes),
    bytes.toString('hex'),
  ];
}

const budgetFor = (text: string): MaskBudget => ({
  left: MIN_COMPARED + COMPARED_PER_CHARACTER * text.length,
});

/** @param masks may grow later */
export const allMasks =
  (masks: readonly Mask[]): Mask =>
  (text, isCut = mayBeCut(text), budget = budgetFor(text)) =>
    masks.reduce((masked, mask) => mask(masked, isCut, budget), text);

/** Creates a mask that finds all secrets in one pass. Overlapping matches are masked as one. */
export function createMask(secrets: readonly string[]): Mask {
  const long = [...new Set(secrets.filter((one) => one.length >= MIN_SECRET_LENGTH))];
  if (long.length === 0) return noMask;
  const chars = long.reduce((sum, { length }) => sum + length, 0);
  if (long.length > MAX_PARTS || chars > MAX_CHARS) return () => TOO_SLOW;
  const parts = new Set(long.flatMap(partsOf));
  if (parts.size > MAX_PARTS) return () => TOO_SLOW;
  const needles = new Set([...parts, ...long.flatMap(encodingsOf)]);
  /** By their first MIN_SECRET_LENGTH characters, longest first. */
  const byStart = new Map<string, string[]>();
  for (const needle of [...needles].sort((a, b) => b.length - a.length)) {
    const start = needle.slice(0, MIN_SECRET_LENGTH);
    const others = byStart.get(start);
    if (others) others.push(needle);
    else byStart.set(start, [needle]);
  }
  /** A Bloom filter of the starts of the needles: skips nearly all of a text. */
  const starts = new Uint8Array(2 ** 13);
  for (const start of byStart.keys()) {
    let hash = 0;
    for (let i = 0; i < MIN_SECRET_LENGTH; i++) hash = nextHash(hash, start.charCodeAt(i));
    starts[hash >> 3]! |= 1 << (hash & 7);
  }

  return (text, isCut = mayBeCut(text), budget = budgetFor(text)) => {
    let masked = '';
    let copied = 0;
    /** End of the current match; overlapping matches extend it. */
    let end = 0;
    let hash = 0;
    for (let i = 0; i < text.length; i++) {
      hash = nextHash(hash, text.charCodeAt(i));
      const at = i - MIN_SECRET_LENGTH + 1;
      if (at < 0 || (starts[hash >> 3]! & (1 << (hash & 7))) === 0) continue;
      for (const needle of byStart.get(text.slice(at, i + 1)) ?? []) {
        /** Of the part of the needle that the text can contain. */
        const length = isCut ? Math.min(needle.length, text.length - at) : needle.length;
        // A needle that ends within the match does not extend it.
        if (at + length <= end) break;
        budget.left -= PREFIX_LENGTH;
        if (budget.left < 0) return TOO_SLOW;
        if (!text.startsWith(needle.slice(0, Math.min(length, PREFIX_LENGTH)), at)) continue;
        budget.left -= length;
        if (budget.left < 0) return TOO_SLOW;
        if (!text.startsWith(needle.slice(0, length), at)) continue;
        if (at >= end) masked += text.slice(copied, at) + MASK;
        end = at + length;
        copied = end;
        break;
      }
    }
    return copied === 0 ? text : masked + text.slice(copied);
  };
}

/** Rolling hash of the last four characters. */
const nextHash = (hash: number, code: number) => ((hash << 4) ^ code) & 0xffff;

/** Name and cause have shorter limits than a log line. */
export const maskError = <E extends ThrownError>(error: E, mask: Mask): E => ({
  ...error,
  name: mask(error.name, true),
  message: mask(error.message),
  stack: mask(error.stack),
  ...(error.cause === undefined ? {} : { cause: mask(error.cause, true) }),
});
