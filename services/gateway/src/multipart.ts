import { Readable } from 'node:stream';
import type { Deps } from '@wellspring/runtime/deps';
import busboy from 'busboy';
import { blobUrl } from './blobs.ts';

const FILE_TTL_MS = 30 * 60 * 1000;
const LIMIT = { fields: 500, files: 50, parts: 550, fieldNameSize: 1000, fieldSize: 1024 * 1024 };

/**
 * The fields of a multipart body as an object; a file becomes `{url, filename, mimetype}`, its bytes a blob whose
 * signed address is valid for 30 minutes. Undefined when the body is no valid multipart.
 */
export async function parseMultipart(
  { blob, config, clock, seal }: Pick<Deps, 'blob' | 'config' | 'clock' | 'seal'>,
  headers: Record<string, string>,
  body: Buffer,
): Promise<Record<string, unknown> | undefined> {
  const fields: Record<string, unknown> = {};
  const files: Promise<void>[] = [];
  const add = (name: string, value: unknown) => {
    const before = Object.hasOwn(fields, name) ? fields[name] : undefined;
    const next = before === undefined ? value : Array.isArray(before) ? [...before, value] : [before, value];
    Object.defineProperty(fields, name, {
      value: next,
      enumerable: true,
      configurable: true,
      writable: true,
    });
  };
  try {
    const parser = busboy({ headers, limits: LIMIT, defParamCharset: 'utf8' });
    parser.on('field', (name, value) => add(name, value));
    parser.on('file', (name, stream, { filename, mimeType }) => {
      files.push(
        (async () => {
          const bytes = Buffer.concat(await stream.toArray());
          const id = await blob.put(bytes, { ttlMs: FILE_TTL_MS, contentType: mimeType, filename });
          add(name, {
            url: blobUrl({ config, seal }, id, clock.now() + FILE_TTL_MS),
            filename,
            mimetype: mimeType,
          });
        })(),
      );
    });
    await new Promise<void>((resolve, reject) => {
      parser.on('close', resolve);
      parser.on('error', reject);
      Readable.from([body]).pipe(parser);
    });
    await Promise.all(files);
    return fields;
  } catch {
    return undefined;
  }
}
