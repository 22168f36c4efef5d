import { HEADER_BYTES, ProtocolError } from './protocol.ts';

export interface Frame {
  type: number;
  /** The content without the header, in order. Valid until the next call of `next`, unless `owned`. */
  parts: Buffer[];
  /** Of the content, in bytes. */
  size: number;
  /** The parts have their own memory blocks, which may be transferred to another thread. */
  owned: boolean;
}

/** The content as one part. */
export const contentOf = ({ parts }: Pick<Frame, 'parts'>): Buffer =>
  parts.length === 1 ? parts[0]! : Buffer.concat(parts);

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

/** Blocks for the bytes of an incomplete frame; they grow as bytes arrive, so that a header alone costs little. */
const MIN_BLOCK_BYTES = 4096;
const MAX_BLOCK_BYTES = 1024 * 1024;
/** Received chunks from this size on are kept as they are: copies of megabytes take time, and collection of the originals. */
const MIN_KEPT_BYTES = 16 * 1024;

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
  /** Complete parts of the incomplete frame; undefined between frames. */
  let parts: Buffer[] | undefined;
  /** Length of the parts, and bytes in the block that follows them. */
  let partsBytes = 0;
  let block: Buffer | undefined;
  let blockBytes = 0;
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

  function endBlock(): void {
    if (block && blockBytes > 0) addPart(block.subarray(0, blockBytes));
    block = undefined;
    blockBytes = 0;
  }

  function addPart(part: Buffer): void {
    parts!.push(part);
    partsBytes += part.length;
  }

  /** Makes the rest of the first chunk a part, if it belongs to the frame and shares its memory with nothing else. */
  function keepChunk(): boolean {
    const chunk = chunks[0]!;
    const rest = chunk.length - at;
    const isShared = chunk.length !== chunk.buffer.byteLength;
    if (isShared || rest < MIN_KEPT_BYTES || rest > size - partsBytes - blockBytes) return false;
    endBlock();
    addPart(chunk.subarray(at));
    chunks.shift();
    at = 0;
    onBytes(rest);
    return true;
  }

  function nextBody(): Frame | undefined {
    for (;;) {
      const received = partsBytes + blockBytes;
      if (received === size) {
        endBlock();
        const frame = { type, parts: parts!, size, owned: true };
        parts = undefined;
        return frame;
      }
      if (chunks.length === 0) return undefined;
      if (keepChunk()) continue;
      if (blockBytes === block?.length) endBlock();
      block ??= Buffer.allocUnsafeSlow(
        Math.min(size - received, Math.max(MIN_BLOCK_BYTES, Math.min(received, MAX_BLOCK_BYTES))),
      );
      blockBytes += take(block, blockBytes, block.length - blockBytes);
    }
  }

  return {
    push(chunk) {
      if (chunk.length > 0) chunks.push(chunk);
    },
    next() {
      if (parts) return nextBody();
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
          return { type, parts: [chunk.subarray(start, start + size)], size, owned: false };
        }
      }
      headerBytes += take(header, headerBytes, HEADER_BYTES - headerBytes);
      if (headerBytes < HEADER_BYTES) return undefined;
      headerBytes = 0;
      readHeader(header, 0);
      parts = [];
      partsBytes = 0;
      return nextBody();
    },
    get partial() {
      return parts !== undefined || headerBytes > 0;
    },
    get missingBytes() {
      return parts ? size - partsBytes - blockBytes : 0;
    },
    get heldBytes() {
      return (parts ? partsBytes : 0) + (block?.length ?? 0) + headerBytes;
    },
  };
}
