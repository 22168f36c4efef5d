import { createServer, type Server, type Socket } from 'node:net';
import { STREAMS, type StreamName, streamHeader } from './messages.ts';

export interface StreamsOptions {
  /** Path of the socket to listen on. */
  path: string;
  /** Connections without it are refused. */
  token: string;
  onStream(stream: Socket, id: number, name: StreamName): void;
}

/** Longer than any header. */
const MAX_HEADER_BYTES = 128;

/** Accepts the streams of processes: connections that begin with a header, see messages.ts. */
export function acceptStreams({ path, token, onStream }: StreamsOptions): {
  listening: Promise<void>;
  close(): Promise<void>;
} {
  const unidentified = new Set<Socket>();

  function identify(socket: Socket): void {
    const chunk: Buffer | null = socket.read();
    if (!chunk) return;
    const end = chunk.indexOf('\n') + 1;
    const header = chunk.toString('latin1', 0, Math.min(end, MAX_HEADER_BYTES));
    const [, id, name] = header.trimEnd().split(' ');
    const isStream = STREAMS.includes(name as StreamName);
    if (!isStream || header !== streamHeader(token, Number(id), name as StreamName)) {
      socket.destroy();
      return;
    }
    unidentified.delete(socket);
    socket.removeAllListeners('readable');
    if (end < chunk.length) socket.unshift(chunk.subarray(end));
    onStream(socket, Number(id), name as StreamName);
  }

  const server: Server = createServer((socket) => {
    socket.on('error', () => {});
    unidentified.add(socket);
    socket.once('close', () => unidentified.delete(socket));
    // The header arrives in one chunk.
    socket.on('readable', () => identify(socket));
  });
  const listening = new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(path, resolve);
  });
  listening.catch(() => {});
  return {
    listening,
    close() {
      for (const socket of unidentified) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
