import type { ServerResponse } from 'node:http';

/** An open response. */
export interface EventStream {
  /** Resolves when the reader accepts more; false: it is disconnected. */
  send(text: string): Promise<boolean>;
  end(): void;
}

/** A reader that accepts nothing for this long is disconnected; it resumes by its last event id. */
const STALL_TIMEOUT_MS = 15_000;
const PIECE_BYTES = 64 * 1024;

/**
 * Starts a response of server-sent events. At most one chunk waits for a slow reader.
 */
export function openStream(res: ServerResponse, stalledMs = STALL_TIMEOUT_MS): EventStream {
  res.writeHead(200, {
    'content-type': 'text/event-stream',
    'cache-control': 'no-cache, no-transform',
    'x-accel-buffering': 'no',
  });
  res.flushHeaders();
  res.socket?.setNoDelay(true);
  // A reset by the reader is not an error.
  res.on('error', () => {});

  const isOver = () => res.destroyed || res.writableEnded || res.closed;

  /** True if the socket accepted everything; false if the reader disconnected or accepted nothing for too long. */
  const drained = () =>
    new Promise<boolean>((resolve) => {
      const settle = (took: boolean) => {
        clearTimeout(timer);
        res.off('drain', onDrain);
        res.off('close', onClose);
        resolve(took);
      };
      const onDrain = () => settle(true);
      const onClose = () => settle(false);
      const timer = setTimeout(() => {
        settle(false);
        res.destroy();
      }, stalledMs);
      res.once('drain', onDrain);
      res.once('close', onClose);
    });

  return {
    async send(text) {
      if (text.length <= PIECE_BYTES) return !isOver() && (res.write(text) || drained());
      const bytes = Buffer.from(text);
      for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
        if (isOver()) return false;
        if (!res.write(bytes.subarray(at, at + PIECE_BYTES)) && !(await drained())) return false;
      }
      return true;
    },
    end() {
      if (!isOver()) res.end();
    },
  };
}
