import type { IncomingMessage } from 'node:http';

/** The body has more bytes than are allowed. */
export class BodyTooLarge extends Error {
  override readonly name = 'BodyTooLarge';
}

const READ = Symbol('body');

/**
 * All bytes of a body of at most `limit` bytes. A second call gives the same bytes, so that the gateway may look at
 * a body that a service reads again.
 * @throws BodyTooLarge as soon as that is known; the rest is read and dropped, so that the client gets the answer
 */
export function readBody(req: IncomingMessage & { [READ]?: Promise<Buffer> }, limit: number): Promise<Buffer> {
  req[READ] ??= read(req, limit);
  return req[READ];
}

function read(req: IncomingMessage, limit: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const refuse = () => {
      req.removeAllListeners('data');
      req.resume();
      reject(new BodyTooLarge());
    };
    if (Number(req.headers['content-length'] ?? 0) > limit) return refuse();
    const chunks: Buffer[] = [];
    let size = 0;
    req.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > limit) return refuse();
      chunks.push(chunk);
    });
    req.on('end', () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)));
    req.on('error', reject);
    req.on('close', () => reject(new Error('the client went away')));
  });
}
