import type { ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Hold } from '@wellspring/core/byte-budget';
import { piecesOf } from '@wellspring/core/in-pieces';
import { withTimeout } from '@wellspring/core/with-timeout';

/** An open response. */
export interface EventStream {
  /** Resolves when the kernel has taken the text; false: the reader is disconnected. */
  send(text: string): Promise<boolean>;
  end(): void;
}

/** A reader that accepts nothing for this long is disconnected; it resumes by its last event id. */
const STALL_TIMEOUT_MS = 15_000;
/** Only a piece is encoded at a time: readers share the text. */
const PIECE_CHARS = 64 * 1024;

/**
 * Starts a response of server-sent events. One text waits for a slow reader, piece by piece.
 * @param waiting takes the bytes of the text that waits; without room for it the reader is disconnected
 */
export function openStream(res: ServerResponse, waiting: Hold, stalledMs = STALL_TIMEOUT_MS): EventStream {
  res.writeHead(200, {
    'content-type': 'text/event-stream',
    'cache-control': 'no-cache, no-transform',
    'x-accel-buffering': 'no',
  });
  res.flushHeaders();
  res.socket?.setNoDelay(true);
  // A reset by the reader is not an error.
  res.on('error', () => {});
  // The answer to HEAD is complete: a stream would never end.
  if (res.req.method === 'HEAD') res.end();

  const isOver = () => res.destroyed || res.writableEnded || res.closed;

  /** True once the kernel has taken the piece; false if the reader is gone. */
  const write = (piece: string) =>
    new Promise<boolean>((resolve) => {
      const gone = () => resolve(false);
      res.once('close', gone);
      res.write(piece, (error) => {
        res.off('close', gone);
        resolve(!error);
      });
    });

  /** Waits for a reader that did not take a piece at once. */
  async function wait(written: Promise<boolean>, bytes: number): Promise<boolean> {
    const hasRoom = waiting.bytes > 0 || waiting.take(bytes);
    const took = hasRoom && (await withTimeout(written, stalledMs));
    if (!took) res.destroy();
    return took === true;
  }

  return {
    async send(text) {
      const bytes = Buffer.byteLength(text);
      try {
        for (const piece of piecesOf(text, PIECE_CHARS)) {
          if (isOver()) return false;
          const written = write(piece);
          const turn = nextTurn();
          const tookAtOnce = await Promise.race([written, turn]);
          if (!(tookAtOnce ?? (await wait(written, bytes)))) return false;
          // While the reader takes every piece at once, nothing else would get a turn.
          await turn;
        }
        return true;
      } finally {
        waiting.release();
      }
    },
    end() {
      if (!isOver()) res.end();
    },
  };
}
