import { promisify } from 'node:util';
import { zstdCompress, zstdDecompress } from 'node:zlib';

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

/** Shorter texts stay as they are. */
const MIN_CHARS = 64 * 1024;
const PREFIX = 'zstd,';

/**
 * The form in which a long text is stored: `zstd,<encoding>,<characters>,<base64>`, compressed by a thread of the pool. A
 * database takes much longer to write megabytes, and in the embedded mode other work waits for that.
 */
export async function packText(text: string): Promise<string> {
  if (text.length < MIN_CHARS && !text.startsWith(PREFIX)) return text;
  // UTF-8 has no lone surrogates.
  const encoding = text.isWellFormed() ? 'utf8' : 'utf16le';
  const bytes = await compress(Buffer.from(text, encoding));
  return `${PREFIX}${encoding},${text.length},${bytes.toString('base64')}`;
}

/** The text of `packText`, or one that was stored without it. */
export async function unpackText(stored: string): Promise<string> {
  if (!stored.startsWith(PREFIX)) return stored;
  const [, encoding, , base64] = stored.split(',', 4);
  const bytes = await decompress(Buffer.from(base64!, 'base64'));
  return bytes.toString(encoding as BufferEncoding);
}

/** Characters of the text after `unpackText`: a few stored ones may be millions. */
export const charsOfPacked = (stored: string): number =>
  stored.startsWith(PREFIX) ? Number(stored.split(',', 3)[2]) : stored.length;
