import type { Socket } from 'node:net';
import type { Release } from './shares.ts';

export interface PumpOptions {
  /** Called before each chunk is passed on. @returns called when it was written. @throws if a limit is exceeded */
  count(direction: 'sent' | 'received', bytes: number): Release;
  /** See Share. */
  pass(bytes: number, resume: () => void): boolean;
  /** The network side failed, or `count` threw. */
  onBroken(error: unknown): void;
  /** Both directions have ended, or the sandbox side was closed. */
  onClose(): void;
}

export interface Pump {
  /** The sandbox has closed its end: the connection is closed after its last bytes. */
  insideIsClosed(): void;
}

/**
 * Passes bytes between a sandbox connection and a network connection until both directions have ended. Applies
 * back-pressure; the end of one direction leaves the other open.
 */
export function pump(inside: Socket, outside: Socket, { count, pass, onBroken, onClose }: PumpOptions): Pump {
  let over = false;
  let isInsideClosed = false;
  const finish = (how: () => void) => {
    if (over) return;
    over = true;
    // Bytes that arrive from now on count for no limit, so they are not read.
    inside.pause();
    outside.pause();
    how();
  };

  const connect = (from: Socket, to: Socket, direction: 'sent' | 'received') => {
    /** The other side has to read before, or it is the turn of others. */
    let reasonsToPause = 0;
    const pause = () => {
      reasonsToPause += 1;
      from.pause();
    };
    const resume = () => {
      reasonsToPause -= 1;
      if (reasonsToPause === 0 && !over) from.resume();
    };
    from.on('data', (chunk: Buffer) => {
      if (over) return;
      let release: Release;
      try {
        release = count(direction, chunk.length);
      } catch (error) {
        finish(() => {
          outside.resetAndDestroy();
          onBroken(error);
        });
        return;
      }
      if (!to.write(chunk, release)) {
        pause();
        to.once('drain', resume);
      }
      if (pass(chunk.length, resume)) pause();
    });
    from.on('end', () => {
      if (over) return;
      if (from === inside && isInsideClosed) outside.destroySoon();
      else to.end();
    });
  };
  connect(inside, outside, 'sent');
  connect(outside, inside, 'received');

  outside.on('error', (error) => finish(() => onBroken(error)));
  outside.on('close', () => finish(onClose));
  // The sandbox closed its end while bytes were in transit to it.
  inside.on('error', () =>
    finish(() => {
      outside.resetAndDestroy();
      onClose();
    }),
  );
  inside.on('close', () =>
    finish(() => {
      outside.destroy();
      onClose();
    }),
  );
  inside.resume();
  outside.resume();
  return {
    insideIsClosed() {
      isInsideClosed = true;
      if (inside.readableEnded) outside.destroySoon();
    },
  };
}
