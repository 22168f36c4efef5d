import { HEADER_BYTES, ProtocolError } from './protocol.ts';

export interface Frame {
  type: number;
  /** Without the header. Valid until the next call of `next`, unless `owned`. */
  content: Buffer;
  /** The content has its own memory block, which may be transferred to another thread. */
  owned: boolean;
}

/** Splits a stream of bytes into frames, one at a time, at the pace of its user. */
export interface FrameReader {
  /** Appends received bytes. */
  push(chunk: Buffer): void;
  /**
   * The next frame; undefined if it is incomplete.
   * @throws ProtocolError for a frame with an invalid header
   */
  next(): Frame | undefined;
  /** The last frame is incomplete. */
  readonly partial: boolean;
  /** Bytes of the content of the incomplete frame that have not arrived, if its header has. */
  readonly missingBytes: number;
  /** Bytes held for the incomplete frame. */
  readonly heldBytes: number;
}

/** Initial buffer size of an incomplete frame; it doubles as bytes arrive, so that a header alone costs little. */
const FIRST_BUFFER_BYTES = 4096;

/**
 * @param maxBytes maximum content bytes of a frame of this type; undefined for an unknown type. Checked as soon as the header
 *   has arrived, so a longer frame is never buffered.
 * @param onBytes called for consumed bytes, before the frame that they complete is returned
 */
export function createFrameReader(
  maxBytes: (type: number) => number | undefined,
  onBytes: (count: number) => void = () => {},
): FrameReader {
  const chunks: Buffer[] = [];
  /** Position in the first chunk. */
  let at = 0;
  const header = Buffer.alloc(HEADER_BYTES);
  let headerBytes = 0;
  /** Content of the incomplete frame; undefined between frames. */
  let body: Buffer | undefined;
  let bodyBytes = 0;
  let size = 0;
  let type = 0;

  /** Moves up to `count` bytes from the chunks. @returns the number of bytes */
  function take(target: Buffer, from: number, count: number): number {
    let taken = 0;
    for (let chunk = chunks[0]; chunk && taken < count; chunk = chunks[0]) {
      const n = chunk.copy(target, from + taken, at, Math.min(chunk.length, at + count - taken));
      taken += n;
      at += n;
      if (at < chunk.length) break;
      chunks.shift();
      at = 0;
    }
    if (taken > 0) onBytes(taken);
    return taken;
  }

  /** @throws ProtocolError */
  function readHeader(bytes: Buffer, offset: number): void {
    const length = bytes.readUInt32LE(offset);
    type = bytes[offset + 4]!;
    const max = maxBytes(type);
    if (max === undefined) throw new ProtocolError(`a frame of type ${type}`);
    if (length < 1) throw new ProtocolError('a frame of length 0');
    size = length - 1;
    if (size > max) throw new ProtocolError(`a frame of type ${type} with ${size} bytes`);
  }

  function available(): number {
    return chunks.length === 0 ? 0 : chunks[0]!.length - at;
  }

  function nextBody(): Frame | undefined {
    for (;;) {
      if (bodyBytes === size) {
        const content = body!.subarray(0, size);
        body = undefined;
        return { type, content, owned: true };
      }
      if (chunks.length === 0) return undefined;
      if (bodyBytes === body!.length) {
        const larger = Buffer.allocUnsafeSlow(Math.min(size, body!.length * 2));
        body!.copy(larger, 0, 0, bodyBytes);
        body = larger;
      }
      bodyBytes += take(body!, bodyBytes, body!.length - bodyBytes);
    }
  }

  return {
    push(chunk) {
      if (chunk.length > 0) chunks.push(chunk);
    },
    next() {
      if (body) return nextBody();
      if (headerBytes === 0 && available() >= HEADER_BYTES) {
        const chunk = chunks[0]!;
        readHeader(chunk, at);
        if (available() >= HEADER_BYTES + size) {
          // The common case: the frame lies within one chunk and is not copied.
          const start = at + HEADER_BYTES;
          at = start + size;
          if (at === chunk.length) {
            chunks.shift();
            at = 0;
          }
          onBytes(HEADER_BYTES + size);
          return { type, content: chunk.subarray(start, start + size), owned: false };
        }
      }
      headerBytes += take(header, headerBytes, HEADER_BYTES - headerBytes);
      if (headerBytes < HEADER_BYTES) return undefined;
      headerBytes = 0;
      readHeader(header, 0);
      body = Buffer.allocUnsafeSlow(Math.min(size, FIRST_BUFFER_BYTES));
      bodyBytes = 0;
      return nextBody();
    },
    get partial() {
      return body !== undefined || headerBytes > 0;
    },
    get missingBytes() {
      return body ? size - bodyBytes : 0;
    },
    get heldBytes() {
      return (body?.length ?? 0) + headerBytes;
    },
  };
}
