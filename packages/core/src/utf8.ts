import { isUtf8 } from 'node:buffer';

/**
 * The text of bytes, with its byte order mark; undefined if they are not UTF-8. For megabytes several times as fast as a
 * TextDecoder.
 */
export const decodeUtf8 = (bytes: Buffer): string | undefined =>
  isUtf8(bytes) ? bytes.toString() : undefined;

const BYTE_ORDER_MARK = '\ufeff';

export const withoutByteOrderMark = (text: string): string =>
  text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text;
