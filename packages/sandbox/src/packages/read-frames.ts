import type { InstallFrame } from './jailed/install.ts';

/** Receives frames of the install program: header, then content in parts. */
export interface FrameSink {
  header(frame: InstallFrame): void;
  content(part: Buffer): void;
}

const MAX_HEADER_BYTES = 64 * 1024;

/**
 * Reads frames (u32 LE length, JSON header, `size` bytes of content) until one of type `done`.
 * @throws Error if the input is malformed or ends early; errors of the sink
 */
export async function readInstallFrames(input: AsyncIterable<Buffer>, sink: FrameSink): Promise<void> {
  let pending: Buffer = Buffer.alloc(0);
  let contentLeft = 0;
  for await (const chunk of input) {
    pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
    for (;;) {
      if (contentLeft > 0) {
        if (pending.length === 0) break;
        const part = pending.subarray(0, contentLeft);
        sink.content(part);
        contentLeft -= part.length;
        pending = pending.subarray(part.length);
        continue;
      }
      if (pending.length < 4) break;
      const length = pending.readUInt32LE(0);
      if (length > MAX_HEADER_BYTES) throw new Error('A frame of the installation is too long');
      if (pending.length < 4 + length) break;
      const frame = JSON.parse(pending.toString('utf8', 4, 4 + length)) as InstallFrame;
      if (!Number.isSafeInteger(frame.size) || frame.size < 0)
        throw new Error('A frame of the installation has no size');
      pending = pending.subarray(4 + length);
      sink.header(frame);
      if (frame.type === 'done') return;
      contentLeft = frame.size;
    }
  }
  throw new Error('The installation ended early');
}
