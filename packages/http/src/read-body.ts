import type { IncomingMessage } from 'node:http';
import { type Hold, UNLIMITED } from '@wellspring/core/byte-budget';
import { inPieces } from '@wellspring/core/in-pieces';

/** The body exceeds its limit. */
export class BodyTooLarge extends Error {
  override readonly name = 'BodyTooLarge';
}

/** The process may not hold more bytes of bodies now. */
export class NoRoomForBody extends Error {
  override readonly name = 'NoRoomForBody';
}

/** The client has left before its body was there. */
export class ClientLeft extends Error {
  override readonly name = 'ClientLeft';
}

/** Bytes of a refused body which are still read, so that the client receives the response. */
const MAX_DROPPED_BYTES = 64 * 1024 * 1024;

/** Memory of a chunk besides its bytes: a client may send each byte alone. */
const CHUNK_BYTES = 512;

const READ = Symbol('body');

interface WithBody extends IncomingMessage {
  [READ]?: { bytes: Promise<Buffer>; hold: Hold };
}

/**
 * All bytes of a body of at most `limit` bytes. A second call returns the same bytes, so that the gateway can read a
 * body before a service in the same process.
 * @param hold takes bytes that have arrived before they are kept. Bytes that are only stated do not count: else idle
 * connections would use up the memory of their owner.
 * @throws BodyTooLarge as soon as the limit is exceeded, NoRoomForBody; the rest is read and dropped, so the connection
 * stays usable. ClientLeft, also if that was before the call
 */
export function readBody(req: WithBody, limit: number, hold: Hold = UNLIMITED): Promise<Buffer> {
  req[READ] ??= { bytes: read(req, limit, hold), hold };
  return req[READ].bytes;
}

/** Holds more bytes for what is made of a body, with those of the body. @throws NoRoomForBody */
export function holdBody(req: WithBody, bytes: number): void {
  if (!req[READ]!.hold.grow(bytes)) throw new NoRoomForBody();
}

/** Drops the reference to the bytes, since the request may live much longer. */
export function forgetBody(req: WithBody): void {
  delete req[READ];
}

function read(req: IncomingMessage, limit: number, hold: Hold): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    let refused = false;
    const left = () => reject(new ClientLeft('The client disconnected.'));
    // Its events are over.
    if (req.destroyed) left();
    const refuse = (error: Error) => {
      refused = true;
      chunks.length = 0;
      reject(error);
    };
    if (Number(req.headers['content-length'] ?? 0) > limit) refuse(new BodyTooLarge());
    req.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > MAX_DROPPED_BYTES) req.destroy();
      else if (!refused) {
        if (size > limit) refuse(new BodyTooLarge());
        else if (!hold.take(chunk.length + CHUNK_BYTES)) refuse(new NoRoomForBody());
        else chunks.push(chunk);
      }
    });
    req.on('end', () => {
      req.off('error', left).off('close', left);
      resolve(chunks.length === 1 ? chunks[0]! : joined(chunks, size));
    });
    req.on('error', left);
    req.on('close', left);
  });
}

/** Joins chunks with pauses, so that other work goes on: fresh memory for megabytes is slow to write. */
async function joined(chunks: readonly Buffer[], size: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(size);
  let end = 0;
  await inPieces(chunks, (chunk) => {
    bytes.set(chunk, end);
    end += chunk.length;
    return chunk.length;
  });
  return bytes;
}
