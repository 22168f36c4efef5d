/** The longest beginning of a text that has at most `bytes` bytes of UTF-8 and cuts no character. */
export function truncateUtf8(text: string, bytes: number): string {
  if (text.length <= bytes && Buffer.byteLength(text) <= bytes) return text;
  return text.slice(0, new TextEncoder().encodeInto(text, new Uint8Array(bytes)).read);
}
