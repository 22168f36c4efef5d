/** Replaces the values of secret props in a text; see createMask. */
export type Mask = (text: string) => string;

const MASK = '********';
/** Shorter values are not masked: they would be found in texts that have nothing to do with them. */
const MIN_SECRET = 4;
/** Lines of a secret of several lines, such as a private key, are masked by themselves from this length on. */
const MIN_LINE = 8;
/** Larger values are masked as they are, not in their encodings. */
const MAX_ENCODED = 8 * 1024;
/** Compared with a needle before the whole of it is. */
const HEAD = 16;
/** What one call may compare, per character of the text and at least; values that are made to be slow exceed it. */
const COMPARED_PER_CHARACTER = 16;
const COMPARED_AT_LEAST = 128 * 1024;
const TOO_SLOW = '(not shown: the values of the secret props cannot be told apart from this text)';

export const noMask: Mask = (text) => text;

/** The forms in which a secret is printed: as it is, in JSON, in URLs, in Base64, line by line. */
function formsOf(secret: string): string[] {
  const lines = secret
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line.length >= MIN_LINE);
  if (secret.length > MAX_ENCODED) return [secret, ...lines];
  const url = encodeURIComponent(secret.toWellFormed());
  const base64 = Buffer.from(secret).toString('base64');
  return [
    secret,
    ...lines,
    JSON.stringify(secret).slice(1, -1),
    url,
    new URLSearchParams([['', secret]]).toString().slice(1),
    url.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
    // Without its end, which depends on what follows in longer texts only by its padding.
    base64.replace(/=+$/, ''),
    Buffer.from(secret).toString('base64url'),
  ];
}

/**
 * Builds what masks these secrets with one pass over a text, however many there are. Of matches that overlap, all is
 * masked. Values with fewer than 4 characters are not.
 */
export function createMask(secrets: readonly string[]): Mask {
  const needles = new Set(secrets.filter((one) => one.length >= MIN_SECRET).flatMap(formsOf));
  if (needles.size === 0) return noMask;
  /** By their first characters, longest first. */
  const byStart = new Map<string, string[]>();
  for (const needle of [...needles].sort((a, b) => b.length - a.length)) {
    const start = needle.slice(0, MIN_SECRET);
    byStart.set(start, [...(byStart.get(start) ?? []), needle]);
  }
  /** A bit for each hash of four characters that starts a needle: nearly all of a text is passed over by it. */
  const starts = new Uint8Array(2 ** 13);
  for (const start of byStart.keys()) {
    let hash = 0;
    for (let i = 0; i < MIN_SECRET; i++) hash = nextHash(hash, start.charCodeAt(i));
    starts[hash >> 3]! |= 1 << (hash & 7);
  }

  return (text) => {
    let left = COMPARED_AT_LEAST + COMPARED_PER_CHARACTER * text.length;
    let masked = '';
    let copied = 0;
    /** End of the match under way; overlapping ones prolong it. */
    let end = 0;
    let hash = 0;
    for (let i = 0; i < text.length; i++) {
      hash = nextHash(hash, text.charCodeAt(i));
      const at = i - MIN_SECRET + 1;
      if (at < 0 || (starts[hash >> 3]! & (1 << (hash & 7))) === 0) continue;
      for (const needle of byStart.get(text.slice(at, i + 1)) ?? []) {
        // Nothing that ends within the match adds to it.
        if (at + needle.length <= end) break;
        left -= HEAD;
        if (left < 0) return TOO_SLOW;
        if (!text.startsWith(needle.slice(0, HEAD), at)) continue;
        left -= needle.length;
        if (left < 0) return TOO_SLOW;
        if (!text.startsWith(needle, at)) continue;
        if (at >= end) masked += text.slice(copied, at) + MASK;
        end = at + needle.length;
        copied = end;
        break;
      }
    }
    return copied === 0 ? text : masked + text.slice(copied);
  };
}

/** Of the last four characters: each one is shifted out by the fourth after it. */
const nextHash = (hash: number, code: number) => ((hash << 4) ^ code) & 0xffff;
