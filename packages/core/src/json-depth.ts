/** Serializing deeper values could overflow the stack. */
export const MAX_DEPTH = 256;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Whether a JSON text is nested more than MAX_DEPTH levels deep. Undefined for malformed JSON. */
export function isTooDeep(text: string): boolean {
  // Each level takes two characters.
  if (text.length <= 2 * MAX_DEPTH) return false;
  let depth = 0;
  let inString = false;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (inString) {
      if (code === BACKSLASH) i += 1;
      else if (code === QUOTE) inString = false;
    } else if (code === QUOTE) inString = true;
    // [ and {
    else if (code === 0x5b || code === 0x7b) {
      depth += 1;
      if (depth > MAX_DEPTH) return true;
      // ] and }
    } else if (code === 0x5d || code === 0x7d) depth -= 1;
  }
  return false;
}
