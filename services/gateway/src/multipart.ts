import { Readable } from 'node:stream';
import { LIMITS } from '@wellspring/contract/limits';
import { BodyTooLarge } from '@wellspring/http/read-body';
import type { Deps } from '@wellspring/runtime/deps';
import busboy from 'busboy';
import { blobUrl } from './blobs.ts';

const FILE_TTL_MS = 30 * 60 * 1000;
/** Each is a blob. Fields are limited by the size of the body. */
const MAX_FILES = 50;

/**
 * The fields of a multipart body as an object. A file becomes `{url, filename, mimetype}` and a blob, whose signed URL
 * is valid for 30 minutes. Undefined if the body is malformed or has too many files.
 * @throws BodyTooLarge if the body without its files has more than LIMITS.endpointBody bytes
 * @throws the error of the blob store: a call must not be accepted without its files
 */
export async function parseMultipart(
  { blob, config, clock, seal }: Pick<Deps, 'blob' | 'config' | 'clock' | 'seal'>,
  headers: Record<string, string>,
  body: Buffer,
): Promise<Record<string, unknown> | undefined> {
  const fields: Record<string, unknown> = {};
  const files: { name: string; filename: string; mimetype: string; bytes: Promise<Buffer> }[] = [];
  const add = (name: string, value: unknown) => {
    const before = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (Array.isArray(before)) return void before.push(value);
    const next = before === undefined ? value : [before, value];
    Object.defineProperty(fields, name, {
      value: next,
      enumerable: true,
      configurable: true,
      writable: true,
    });
  };
  let read: { name: string; filename: string; mimetype: string; bytes: Buffer }[];
  try {
    const parser = busboy({ headers, limits: { files: MAX_FILES }, defParamCharset: 'utf8' });
    parser.on('field', (name, value) => add(name, value));
    parser.on('file', (name, stream, { filename, mimeType }) => {
      const bytes = stream.toArray().then((chunks) => Buffer.concat(chunks));
      // The parser reports a truncated body.
      bytes.catch(() => {});
      files.push({ name, filename, mimetype: mimeType, bytes });
    });
    await new Promise<void>((resolve, reject) => {
      parser.on('close', resolve);
      parser.on('error', reject);
      parser.on('filesLimit', reject);
      Readable.from([body]).pipe(parser);
    });
    read = await Promise.all(files.map(async (file) => ({ ...file, bytes: await file.bytes })));
  } catch {
    return undefined;
  }
  const fileBytes = read.reduce((sum, { bytes }) => sum + bytes.length, 0);
  if (body.length - fileBytes > LIMITS.endpointBody) throw new BodyTooLarge();
  const ids = await Promise.all(
    read.map(({ filename, mimetype, bytes }) =>
      blob.put(bytes, { ttlMs: FILE_TTL_MS, contentType: mimetype, filename }),
    ),
  );
  read.forEach(({ name, filename, mimetype }, index) => {
    const url = blobUrl({ config, seal }, ids[index]!, clock.now() + FILE_TTL_MS);
    add(name, { url, filename, mimetype });
  });
  return fields;
}
