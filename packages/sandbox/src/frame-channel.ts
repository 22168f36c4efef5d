import type { Socket } from 'node:net';
import type { FrameParser } from './frame-parser.ts';
import { createFrameReader, type Frame } from './frame-reader.ts';
import { type ChildMessage, readFrame } from './frame-schema.ts';
import { ProtocolError } from './protocol.ts';
import type { Turns } from './turns.ts';

/** The frames that one child sends, in their order, at a pace that leaves time for everybody else. */
export interface FrameChannel {
  /** Resolves when all that has arrived was handled. */
  drained(): Promise<void>;
  /** Nothing is handled any more. */
  close(): void;
}

export interface FrameChannelOptions {
  socket: Socket;
  turns: Turns;
  parser: FrameParser;
  /** Whom the time for these frames is shared by. */
  owner(): string;
  maxBytes(type: number): number | undefined;
  /** Bytes that arrived, complete frame or not. */
  onBytes(count: number): void;
  onMessage(message: ChildMessage): void;
  /** @param what continues "The process of the code sent …" */
  onViolation(what: string): void;
  /** For tests; default: 10 s. */
  maxPartialMs?: number;
}

/** Frames up to this size are read on the main thread: that takes less than the way to a worker thread and back. */
const MAX_INLINE_BYTES = 32 * 1024;
/** A child writes a frame as a whole; one that stays incomplete for longer holds memory for nothing. */
const MAX_PARTIAL_MS = 10_000;

export function createFrameChannel({
  socket,
  turns,
  parser,
  owner,
  maxBytes,
  onBytes,
  onMessage,
  onViolation,
  maxPartialMs = MAX_PARTIAL_MS,
}: FrameChannelOptions): FrameChannel {
  const reader = createFrameReader(maxBytes, onBytes);
  /** Frames wait for their turn or for the worker thread; meanwhile the socket is paused: back-pressure. */
  let waiting = false;
  let closed = false;
  let partialTimer: NodeJS.Timeout | undefined;
  const whenDrained: (() => void)[] = [];

  function close(): void {
    closed = true;
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
    // Anything else is a fault of the platform; nobody but this child must suffer from it.
    onViolation(error instanceof ProtocolError ? error.message : `what could not be handled (${error})`);
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
        const frame = reader.next();
        // What `next` told of the bytes may have closed this.
        if (closed) return false;
        if (!frame) break;
        if (frame.content.length > MAX_INLINE_BYTES) {
          readElsewhere(frame);
          return false;
        }
        onMessage(readFrame(frame.type, frame.content));
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

  function pause(): void {
    waiting = true;
    clearTimeout(partialTimer);
    partialTimer = undefined;
    socket.pause();
  }

  function readElsewhere(frame: Frame): void {
    pause();
    parser
      .parse(owner(), frame)
      .then((message) => {
        if (closed) return;
        onMessage(message);
        turns.run(owner(), work);
      })
      .catch(refuse);
  }

  socket.on('data', (chunk: Buffer) => {
    if (closed) return;
    reader.push(chunk);
    if (!waiting && !turns.run(owner(), work)) pause();
  });

  return {
    drained: () =>
      waiting && !closed ? new Promise((resolve) => whenDrained.push(resolve)) : Promise.resolve(),
    close,
  };
}
