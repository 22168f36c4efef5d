/** Memory for frames that arrive in several chunks. */
export interface FrameBlocks {
  take(bytes: number): Buffer;
  /** The block is no longer read or written. */
  give(block: Buffer): void;
}

export const MIN_BLOCK_BYTES = 4 * 1024;
export const MAX_BLOCK_BYTES = 128 * 1024;
const MAX_SHARED_BYTES = 32 * 1024 * 1024;

/** New memory for each block, which its user may keep. */
export const newBlocks: FrameBlocks = { take: (bytes) => Buffer.allocUnsafeSlow(bytes), give() {} };

/**
 * Blocks that are used again, and that a worker thread can read. See ADR 40. V8 does not count shared memory, so nothing
 * would collect it in time: blocks of other sizes than powers of two, and those beyond the limit, are ordinary memory.
 */
export function createFrameBlocks(): FrameBlocks {
  /** By size. */
  const free = new Map<number, Buffer[]>();
  for (let bytes = MIN_BLOCK_BYTES; bytes <= MAX_BLOCK_BYTES; bytes *= 2) free.set(bytes, []);
  let sharedBytes = 0;
  return {
    take(bytes) {
      const blocks = free.get(bytes);
      const block = blocks?.pop();
      if (block) return block;
      if (!blocks || sharedBytes + bytes > MAX_SHARED_BYTES) return newBlocks.take(bytes);
      sharedBytes += bytes;
      return Buffer.from(new SharedArrayBuffer(bytes));
    },
    give(block) {
      if (block.buffer instanceof SharedArrayBuffer) free.get(block.length)?.push(block);
    },
  };
}
