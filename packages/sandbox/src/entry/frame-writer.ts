import { writeSync } from 'node:fs';
import { type FrameType, HEADER_BYTES, putFrame } from '../protocol.ts';

/** Frames are written earlier when they reach this size together. */
const MAX_PENDING_BYTES = 64 * 1024;
const MAX_CALLS_PER_TURN = 64;
/** In a turn of the event loop that takes longer, frames are written at once: it may never end. */
const LONG_TURN_MS = 100;

// Captured before user code, which may replace them, is loaded.
const { stringify } = JSON;
const immediate = setImmediate;
const NativePromise = Promise;
const wait = Atomics.wait;
const monotonic = performance.now.bind(performance);
const never = new Int32Array(new SharedArrayBuffer(4));

/** Writes frames to the platform. Those of one turn of the event loop are written together: each write wakes it. */
export interface FrameWriter {
  /** @param payload see protocol.ts; the length of the head then precedes the head */
  send(type: FrameType, head: string, payload?: string): void;
  sendJson(type: FrameType, value: unknown): void;
  flush(): void;
  /**
   * Resolves after all microtasks, when Node.js has reported the rejections that nobody handles. The frames sent before
   * are then not written yet: the caller sends one more and flushes.
   * @param calls number of calls that are left, with this one: several of them can end in one turn of the event loop
   */
  turnEnd(calls: number): Promise<void>;
}

/**
 * @param closed called when the platform has ended, or code has closed the descriptor; does not return
 * @param now milliseconds
 */
export function createFrameWriter(fd: number, closed: () => never, now = monotonic): FrameWriter {
  /** Frames that were not written yet. */
  const out = Buffer.allocUnsafeSlow(MAX_PENDING_BYTES);
  let outBytes = 0;
  /** When the turn began, or the first of its frames was sent. */
  let turnBegan = 0;
  /** Calls of `endTurn` that are due. */
  let dueEnds = 0;
  let atTurnEnd: (() => void) | undefined;

  /**
   * Writes synchronously, so that a frame is never left incomplete while code blocks the event loop, and code that sends
   * faster than the platform reads is slowed down.
   */
  function flush(): void {
    const length = outBytes;
    outBytes = 0;
    if (length > 0) writeAll(out, length);
  }

  function writeAll(bytes: Buffer, length: number): void {
    for (let at = 0; at < length; ) {
      try {
        at += writeSync(fd, bytes, at, length - at);
      } catch (error) {
        if ((error as { code?: string }).code !== 'EAGAIN') closed();
        wait(never, 0, 0, 1);
      }
    }
  }

  function endTurn(): void {
    dueEnds -= 1;
    turnBegan = now();
    const resolve = atTurnEnd;
    atTurnEnd = undefined;
    if (resolve) resolve();
    else flush();
  }

  /** Node.js calls the immediates that are set now in one turn, with microtasks and rejections after each. */
  function endTurnLater(calls = 1): void {
    if (dueEnds === 0) turnBegan = now();
    for (; dueEnds < calls; dueEnds += 1) immediate(endTurn);
  }

  function send(type: FrameType, head: string, payload?: string): void {
    // A UTF-16 code unit takes up to three bytes of UTF-8.
    const most = HEADER_BYTES + 4 + 3 * (head.length + (payload?.length ?? 0));
    if (most > out.length - outBytes) flush();
    if (most > out.length) {
      const frame = Buffer.allocUnsafeSlow(most);
      writeAll(frame, putFrame(frame, 0, type, head, payload));
      return;
    }
    outBytes = putFrame(out, outBytes, type, head, payload);
    endTurnLater();
    if (now() - turnBegan >= LONG_TURN_MS) flush();
  }

  return {
    send,
    sendJson: (type, value) => send(type, stringify(value)),
    flush,
    turnEnd(calls) {
      endTurnLater(Math.min(calls, MAX_CALLS_PER_TURN));
      return new NativePromise((resolve) => {
        atTurnEnd = resolve;
      });
    },
  };
}
