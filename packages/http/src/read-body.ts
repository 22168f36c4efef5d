import type { IncomingMessage } from 'node:http';

/** The body exceeds its limit. */
export class BodyTooLarge extends Error {
  override readonly name = 'BodyTooLarge';
}

/** Bytes of a body that is too large which are still read, so that the client receives the response. */
const MAX_DROPPED_BYTES = 64 * 1024 * 1024;

const READ = Symbol('body');

/**
 * All bytes of a body of at most `limit` bytes. A second call returns the same bytes, so that the gateway can read a
 * body before a service in the same process.
 * @throws BodyTooLarge as soon as the limit is exceeded; the rest is read and dropped, so the connection stays usable
 */
export function readBody(
  req: IncomingMessage & { [READ]?: Promise<Buffer> },
  limit: number,
): Promise<Buffer> {
  req[READ] ??= read(req, limit);
  return req[READ];
}

function read(req: IncomingMessage, limit: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    let refused = false;
    const refuse = () => {
      refused = true;
      chunks.length = 0;
      reject(new BodyTooLarge());
    };
    if (Number(req.headers['content-length'] ?? 0) > limit) refuse();
    req.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > MAX_DROPPED_BYTES) req.destroy();
      else if (!refused) {
        chunks.push(chunk);
        if (size > limit) refuse();
      }
    });
    req.on('end', () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)));
    req.on('error', reject);
    req.on('close', () => reject(new Error('The client disconnected.')));
  });
}
