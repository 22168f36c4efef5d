/** Memory for frames that arrive in several chunks. */
export interface FrameBlocks {
  take(bytes: number): Buffer;
  /** The block is no longer read or written. */
  give(block: Buffer): void;
}

/** Size of blocks that are used again: of a large frame, all but the first and the last few. */
export const BLOCK_BYTES = 128 * 1024;
const MAX_FREE_BYTES = 32 * 1024 * 1024;

/** New memory for each block, which its user may keep. */
export const newBlocks: FrameBlocks = { take: (bytes) => Buffer.allocUnsafeSlow(bytes), give() {} };

/** Blocks that are used again, and that a worker thread can read. See ADR 40. */
export function createFrameBlocks(): FrameBlocks {
  const free: Buffer[] = [];
  return {
    take: (bytes) => (bytes === BLOCK_BYTES && free.pop()) || Buffer.from(new SharedArrayBuffer(bytes)),
    give(block) {
      if (block.length === BLOCK_BYTES && free.length < MAX_FREE_BYTES / BLOCK_BYTES) free.push(block);
    },
  };
}
