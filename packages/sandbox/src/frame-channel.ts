import type { Connection } from './connection.ts';
import type { FrameBlocks } from './frame-blocks.ts';
import type { FrameParser } from './frame-parser.ts';
import { contentOf, createFrameReader, type Frame } from './frame-reader.ts';
import { type ChildMessage, readFrame } from './frame-schema.ts';
import { ProtocolError } from './protocol.ts';
import type { Turns } from './turns.ts';

/** Handles the frames of one child in order, within its share of the main thread. */
export interface FrameChannel {
  /** Resolves when all received frames were handled. */
  drained(): Promise<void>;
  /** Ignores further frames. */
  close(): void;
}

export interface FrameChannelOptions {
  connection: Connection;
  blocks: FrameBlocks;
  turns: Turns;
  parser: FrameParser;
  /** Owner whose share of time these frames use. */
  owner(): string;
  maxBytes(type: number): number | undefined;
  /** Called for all received bytes, including incomplete frames. */
  onBytes(count: number): void;
  /** Called before a frame is read, with the bytes that an incomplete one lacks; see Room. */
  makeRoom(bytes: number): Promise<void> | undefined;
  onMessage(message: ChildMessage): void;
  /** @param what completes "The process of the code sent …" */
  onViolation(what: string): void;
  /** For tests; default: 10 s. */
  maxPartialMs?: number;
}

/** Frames up to this size are read on the main thread, which is faster than a round trip to a worker thread. */
const MAX_INLINE_BYTES = 32 * 1024;
/** A child writes whole frames; one that stays incomplete for longer only occupies memory. */
const MAX_PARTIAL_MS = 10_000;

export function createFrameChannel({
  connection: { socket, read },
  blocks,
  turns,
  parser,
  owner,
  maxBytes,
  onBytes,
  makeRoom,
  onMessage,
  onViolation,
  maxPartialMs = MAX_PARTIAL_MS,
}: FrameChannelOptions): FrameChannel {
  const reader = createFrameReader(maxBytes, { onBytes, blocks });
  /** Frames wait for their turn, for the worker thread or for room, with the socket paused (back-pressure). */
  let waiting = false;
  let closed = false;
  let partialTimer: NodeJS.Timeout | undefined;
  const whenDrained: (() => void)[] = [];

  function close(): void {
    closed = true;
    reader.close();
    clearTimeout(partialTimer);
    settle();
  }

  function settle(): void {
    waiting = false;
    for (const resolve of whenDrained.splice(0)) resolve();
  }

  function refuse(error: unknown): void {
    if (closed) return;
    close();
    // Other errors are faults of the platform; they must affect this child only.
    onViolation(
      error instanceof ProtocolError ? error.message : `a frame that could not be handled (${error})`,
    );
  }

  function watchPartial(): void {
    if (!reader.partial) {
      clearTimeout(partialTimer);
      partialTimer = undefined;
    } else partialTimer ??= setTimeout(() => refuse(new ProtocolError('half a frame')), maxPartialMs);
  }

  /** @returns whether there is more to do */
  function work(deadline: number): boolean {
    try {
      for (;;) {
        if (closed) return false;
        const room = makeRoom(reader.missingBytes);
        if (room) {
          goOnAfter(room);
          return false;
        }
        const frame = reader.next();
        // `next` calls `onBytes`, which may have closed the channel.
        if (closed) return false;
        if (!frame) break;
        if (frame.size > MAX_INLINE_BYTES) {
          readElsewhere(frame);
          return false;
        }
        onMessage(readHere(frame));
        if (performance.now() >= deadline) return !closed;
      }
      watchPartial();
      if (waiting) {
        settle();
        socket.resume();
      }
    } catch (error) {
      refuse(error);
    }
    return false;
  }

  function readHere(frame: Frame): ChildMessage {
    try {
      return readFrame(frame.type, contentOf(frame));
    } finally {
      frame.release();
    }
  }

  function pause(): void {
    waiting = true;
    clearTimeout(partialTimer);
    partialTimer = undefined;
    socket.pause();
  }

  function goOnAfter(event: Promise<void>): void {
    pause();
    event.then(() => void (!closed && turns.run(owner(), work))).catch(refuse);
  }

  function readElsewhere(frame: Frame): void {
    goOnAfter(
      parser.parse(owner(), frame).then((message) => {
        if (!closed) onMessage(message);
      }),
    );
  }

  read((chunk) => {
    if (closed) return;
    reader.push(chunk);
    if (!waiting && !turns.run(owner(), work)) pause();
    reader.keep();
  });

  return {
    drained: () =>
      waiting && !closed ? new Promise((resolve) => whenDrained.push(resolve)) : Promise.resolve(),
    close,
  };
}
