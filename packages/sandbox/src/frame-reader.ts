import { type FrameBlocks, MAX_BLOCK_BYTES, MIN_BLOCK_BYTES, newBlocks } from './frame-blocks.ts';
import { HEADER_BYTES, ProtocolError } from './protocol.ts';

export interface Frame {
  type: number;
  /** The content without the header, in order. Valid until the next call of `next` or `keep`, unless `inBlocks`. */
  parts: Buffer[];
  /** Of the content, in bytes. */
  size: number;
  /** The parts are in blocks, and valid until `release`. */
  inBlocks: boolean;
  /** Gives the blocks back. */
  release(): void;
}

/** The content as one part. */
export const contentOf = ({ parts }: Pick<Frame, 'parts'>): Buffer =>
  parts.length === 1 ? parts[0]! : Buffer.concat(parts);

/** Splits a stream of bytes into frames, one at a time, at the pace of its user. */
export interface FrameReader {
  /** Appends received bytes. */
  push(chunk: Buffer): void;
  /** Copies pushed bytes that were not read yet, so that their memory can be used again. */
  keep(): void;
  /**
   * The next frame; undefined if it is incomplete.
   * @throws ProtocolError for a frame with an invalid header
   */
  next(): Frame | undefined;
  /** Drops the incomplete frame. Nothing is read afterwards. */
  close(): void;
  /** The last frame is incomplete. */
  readonly partial: boolean;
  /** Bytes of the content of the incomplete frame that have not arrived, if its header has. */
  readonly missingBytes: number;
  /** Bytes held for the incomplete frame. */
  readonly heldBytes: number;
}

export interface FrameReaderOptions {
  /** Called for consumed bytes, before the frame that they complete is returned. */
  onBytes?(count: number): void;
  blocks?: FrameBlocks;
}

/**
 * @param maxBytes maximum content bytes of a frame of this type; undefined for an unknown type. Checked as soon as the header
 *   has arrived, so a longer frame is never buffered.
 */
export function createFrameReader(
  maxBytes: (type: number) => number | undefined,
  { onBytes = () => {}, blocks = newBlocks }: FrameReaderOptions = {},
): FrameReader {
  let chunks: Buffer[] = [];
  /** Position in the first chunk. */
  let at = 0;
  const header = Buffer.alloc(HEADER_BYTES);
  let headerBytes = 0;
  /** Blocks of the incomplete frame; undefined between frames. */
  let taken: Buffer[] | undefined;
  /** Received bytes of the frame, and length of its blocks. */
  let received = 0;
  let takenBytes = 0;
  let size = 0;
  let type = 0;

  /** Moves up to `count` bytes from the chunks. @returns the number of bytes */
  function move(target: Buffer, from: number, count: number): number {
    let moved = 0;
    for (let chunk = chunks[0]; chunk && moved < count; chunk = chunks[0]) {
      const n = chunk.copy(target, from + moved, at, Math.min(chunk.length, at + count - moved));
      moved += n;
      at += n;
      if (at < chunk.length) break;
      chunks.shift();
      at = 0;
    }
    if (moved > 0) onBytes(moved);
    return moved;
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

  function end(): Frame {
    const parts = taken!;
    taken = undefined;
    return {
      type,
      parts,
      size,
      inBlocks: true,
      release() {
        for (const block of parts.splice(0)) blocks.give(block);
      },
    };
  }

  function nextBody(): Frame | undefined {
    const own = taken!;
    while (received < size) {
      if (chunks.length === 0) return undefined;
      if (received === takenBytes) {
        // As long as what has arrived, so that a header alone costs little.
        const bytes = Math.min(size - received, MAX_BLOCK_BYTES, Math.max(MIN_BLOCK_BYTES, received));
        own.push(blocks.take(bytes));
        takenBytes += bytes;
      }
      const block = own.at(-1)!;
      const free = takenBytes - received;
      received += move(block, block.length - free, free);
      // `onBytes` may have closed the reader.
      if (!taken) return undefined;
    }
    return end();
  }

  return {
    push(chunk) {
      if (chunk.length > 0) chunks.push(chunk);
    },
    keep() {
      // The common case: everything was read.
      if (chunks.length === 0) return;
      chunks = chunks.map((chunk, n) => Buffer.from(n === 0 ? chunk.subarray(at) : chunk));
      at = 0;
    },
    next() {
      if (taken) return nextBody();
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
          return { type, parts: [chunk.subarray(start, start + size)], size, inBlocks: false, release() {} };
        }
      }
      headerBytes += move(header, headerBytes, HEADER_BYTES - headerBytes);
      if (headerBytes < HEADER_BYTES) return undefined;
      headerBytes = 0;
      readHeader(header, 0);
      taken = [];
      received = 0;
      takenBytes = 0;
      return nextBody();
    },
    close() {
      for (const block of taken ?? []) blocks.give(block);
      taken = undefined;
      chunks = [];
    },
    get partial() {
      return taken !== undefined || headerBytes > 0;
    },
    get missingBytes() {
      return taken ? size - received : 0;
    },
    get heldBytes() {
      return (taken ? takenBytes : 0) + headerBytes;
    },
  };
}
