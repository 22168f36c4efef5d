/** The longest beginning of a text that has at most `bytes` bytes of UTF-8 and cuts no character. */
export function truncateUtf8(text: string, bytes: number): string {
  if (text.length <= bytes && Buffer.byteLength(text) <= bytes) return text;
  const encoded = Buffer.from(text.slice(0, bytes));
  if (encoded.length <= bytes) return text.slice(0, bytes);
  let end = bytes;
  // 10xxxxxx continues a character: go back to its first byte.
  while (end > 0 && (encoded[end]! & 0xc0) === 0x80) end -= 1;
  return encoded.toString('utf8', 0, end);
}
