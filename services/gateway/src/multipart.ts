import type { IncomingMessage } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { setImmediate } from 'node:timers/promises';
import { LIMITS } from '@wellspring/contract/limits';
import { createFairPermits, withPermit } from '@wellspring/core/fair-permits';
import { BodyTooLarge, NoRoomForBody } from '@wellspring/http/read-body';
import type { Deps } from '@wellspring/runtime/deps';
import busboy from 'busboy';
import { blobUrl } from './blobs.ts';
import { createFileBudget } from './file-budget.ts';

const FILE_TTL_MS = 30 * 60 * 1000;
/** Expired files are removed every ten minutes. */
const FILE_KEPT_MS = FILE_TTL_MS + 10 * 60 * 1000;
/** Each is a blob. Fields are limited by the size of the body. */
const MAX_FILES = 50;
/** Bytes that are parsed in one turn of the event loop. A megabyte of small parts takes a tenth of a second. */
const PIECE_BYTES = 64 * 1024;
/** Bytes of a file that may be in the parser. */
const MAX_BEHIND = 4 * PIECE_BYTES;

export const isMultipart = ({ headers }: Pick<IncomingMessage, 'headers'>): boolean =>
  /^multipart\/form-data\b/i.test(headers['content-type'] ?? '');

/** Bytes of the body of a call. */
export const bodyLimitOf = (req: Pick<IncomingMessage, 'headers'>): number =>
  isMultipart(req) ? LIMITS.multipartBody : LIMITS.endpointBody;

interface File {
  name: string;
  filename: string;
  mimetype: string;
  bytes: Buffer;
}

interface Multipart {
  fields: Record<string, unknown>;
  /** Removes the files, of a call that was not accepted. */
  discard(): Promise<void>;
}

/**
 * The fields of a multipart body as an object. A file becomes `{url, filename, mimetype}` and a blob, whose signed URL
 * is valid for 30 minutes. Undefined if the body is malformed or has too many files.
 * @throws BodyTooLarge if the body without its files has more than LIMITS.endpointBody bytes; NoRoomForBody if the owner
 * has left too many files
 * @throws the error of the blob store: a call must not be accepted without its files
 */
export type ReadMultipart = (
  ownerId: string,
  headers: Record<string, string>,
  body: Buffer,
) => Promise<Multipart | undefined>;

type MultipartDeps = Pick<Deps, 'blob' | 'config' | 'clock' | 'seal'>;

export function createMultipart({ blob, config, clock, seal }: MultipartDeps): ReadMultipart {
  /** One body at a time: pieces of many would still occupy the event loop. */
  const parsing = createFairPermits({ total: 1 });
  const budget = createFileBudget(config.endpointFilesMb * 1024 * 1024, { keptMs: FILE_KEPT_MS, clock });

  async function store(ownerId: string, files: readonly File[]) {
    const giveBack = budget.take(
      ownerId,
      files.map(({ bytes }) => bytes),
    );
    if (!giveBack) throw new NoRoomForBody();
    try {
      const ids = await Promise.all(
        files.map(({ filename, mimetype, bytes }) =>
          blob.put(bytes, { ttlMs: FILE_TTL_MS, contentType: mimetype, filename }),
        ),
      );
      const discard = async () => {
        await Promise.all(ids.map((id) => blob.remove(id)));
        giveBack();
      };
      return { ids, discard };
    } catch (error) {
      giveBack();
      throw error;
    }
  }

  return async (ownerId, headers, body) => {
    const parsed = await withPermit(parsing, ownerId, () => parse(headers, body));
    if (!parsed) return undefined;
    const { fields, files } = parsed;
    const { ids, discard } =
      files.length > 0 ? await store(ownerId, files) : { ids: [], discard: async () => {} };
    files.forEach(({ name, filename, mimetype }, index) => {
      const until = clock.now() + FILE_TTL_MS;
      const url = blobUrl({ config, seal }, { id: ids[index]!, ownerId, until });
      add(fields, name, { url, filename, mimetype });
    });
    return { fields, discard };
  };
}

/** Adds a value; several of one name become a list. */
function add(fields: Record<string, unknown>, name: string, value: unknown): void {
  const before = Object.hasOwn(fields, name) ? fields[name] : undefined;
  if (Array.isArray(before)) return void before.push(value);
  const next = before === undefined ? value : [before, value];
  Object.defineProperty(fields, name, { value: next, enumerable: true, configurable: true, writable: true });
}

/** @returns undefined if the body is malformed or has too many files. @throws BodyTooLarge */
async function parse(
  headers: Record<string, string>,
  body: Buffer,
): Promise<{ fields: Record<string, unknown>; files: File[] } | undefined> {
  const fields: Record<string, unknown> = {};
  const files: (Omit<File, 'bytes'> & { chunks: Buffer[] })[] = [];
  let fileBytes = 0;
  async function* pieces() {
    for (let at = 0; at < body.length; at += PIECE_BYTES) {
      yield body.subarray(at, at + PIECE_BYTES);
      await setImmediate();
      if (at - fileBytes > LIMITS.endpointBody + MAX_BEHIND) throw new BodyTooLarge();
    }
  }
  try {
    const parser = busboy({ headers, limits: { files: MAX_FILES }, defParamCharset: 'utf8' });
    parser.on('field', (name, value) => add(fields, name, value));
    parser.on('file', (name, stream, { filename, mimeType }) => {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        fileBytes += chunk.length;
      });
      // The parser reports a truncated body.
      stream.on('error', () => {});
      files.push({ name, filename, mimetype: mimeType, chunks });
    });
    parser.on('filesLimit', () => parser.destroy(new Error('The body has too many files.')));
    // It reports each malformed header of a piece, also after the first one.
    parser.on('error', () => {});
    await pipeline(pieces, parser);
  } catch (error) {
    if (error instanceof BodyTooLarge) throw error;
    return undefined;
  }
  if (body.length - fileBytes > LIMITS.endpointBody) throw new BodyTooLarge();
  return { fields, files: files.map(({ chunks, ...file }) => ({ ...file, bytes: Buffer.concat(chunks) })) };
}
