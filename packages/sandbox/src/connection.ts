import { createConnection, type Socket } from 'node:net';

/** A connection whose received bytes are in memory that all connections share. See ADR 40. */
export interface Connection {
  readonly socket: Socket;
  /**
   * Begins to read, once.
   * @param onChunk its chunk is valid during the call only
   */
  read(onChunk: (chunk: Buffer) => void): void;
}

/** A buffer is used between a read and its callback only, so one is enough. */
const BUFFER = Buffer.allocUnsafeSlow(64 * 1024);

export function connect(address: { path: string } | { port: number; host: string }): Connection {
  let onChunk: (chunk: Buffer) => void = () => {};
  const socket = createConnection({
    ...address,
    onread: {
      buffer: BUFFER,
      callback(bytes) {
        onChunk(BUFFER.subarray(0, bytes));
        return true;
      },
    },
  });
  socket.pause();
  return {
    socket,
    read(callback) {
      onChunk = callback;
      socket.resume();
    },
  };
}
