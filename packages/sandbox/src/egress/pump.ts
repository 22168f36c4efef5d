import type { Socket } from 'node:net';

export interface PumpOptions {
  /** Called with the bytes of each chunk before it is passed on. @returns false when it is one too many */
  count(direction: 'sent' | 'received', bytes: number): boolean;
  /** The side of the network failed, by this error, or `count` said no (undefined). */
  onBroken(error: Error | undefined): void;
  /** Both directions have ended, or the side of the sandbox is gone. */
  onClose(): void;
}

export interface Pump {
  /** The sandbox has closed its end: once its last bytes are passed on, nothing is waited for. */
  insideIsClosed(): void;
}

/**
 * Passes bytes between a connection of a sandbox and one of the network until both directions have ended. A slow reader
 * holds back its writer, and the end of one direction leaves the other one open.
 */
export function pump(inside: Socket, outside: Socket, { count, onBroken, onClose }: PumpOptions): Pump {
  let over = false;
  let isInsideClosed = false;
  const finish = (how: () => void) => {
    if (over) return;
    over = true;
    how();
  };

  const pass = (from: Socket, to: Socket, direction: 'sent' | 'received') => {
    const resume = () => from.resume();
    from.on('data', (chunk: Buffer) => {
      if (over) return;
      if (!count(direction, chunk.length)) return finish(() => onBroken(undefined));
      if (to.write(chunk)) return;
      from.pause();
      to.once('drain', resume);
    });
    from.on('end', () => {
      if (over) return;
      if (from === inside && isInsideClosed) outside.destroySoon();
      else to.end();
    });
  };
  pass(inside, outside, 'sent');
  pass(outside, inside, 'received');

  outside.on('error', (error) => finish(() => onBroken(error)));
  outside.on('close', () => finish(onClose));
  // The sandbox closed its end while bytes were on their way to it.
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
