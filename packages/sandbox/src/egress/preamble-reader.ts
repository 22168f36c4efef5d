import type { Socket } from 'node:net';
import { decodePreamble, MAX_PREAMBLE_BYTES, type Preamble } from './wire.ts';

/**
 * Reads the preamble of a connection and pauses the connection. Bytes behind the preamble stay readable. Destroys the
 * connection if the preamble is malformed or late.
 */
export function readPreamble(
  socket: Socket,
  timeoutMs: number,
  onPreamble: (preamble: Preamble) => void,
): void {
  let bytes: Buffer = Buffer.alloc(0);
  const late = setTimeout(() => socket.destroy(), timeoutMs);
  const cleanUp = () => {
    clearTimeout(late);
    socket.off('data', onData);
    socket.off('end', onEnd);
    socket.off('close', cleanUp);
  };
  const onEnd = () => socket.destroy();
  const onData = (chunk: Buffer) => {
    bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk]);
    let decoded: ReturnType<typeof decodePreamble>;
    try {
      decoded = decodePreamble(bytes);
    } catch {
      socket.destroy();
      return;
    }
    if (!decoded) {
      if (bytes.length > MAX_PREAMBLE_BYTES) socket.destroy();
      return;
    }
    cleanUp();
    socket.pause();
    if (bytes.length > decoded.length) socket.unshift(bytes.subarray(decoded.length));
    onPreamble(decoded.preamble);
  };
  socket.on('data', onData);
  socket.once('end', onEnd);
  socket.once('close', cleanUp);
}
