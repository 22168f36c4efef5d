import { rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { STREAMS, type StreamName, streamHeader } from './messages.ts';

export interface Streams {
  listening: Promise<void>;
  /** @returns the streams of a process in the order of `STREAMS`, when all have arrived; call it once for each id */
  take(id: number): Promise<Socket[]>;
}

/** Longer than any header. */
const MAX_HEADER_BYTES = 128;

/**
 * Accepts the streams of processes: connections that begin with a header, see messages.ts.
 * @param path of the socket to listen on
 * @param token connections without it are refused
 */
export function acceptStreams(path: string, token: string): Streams {
  const arrived = new Map<number, Map<StreamName, Socket>>();
  const wanted = new Map<number, (streams: Socket[]) => void>();

  function settle(id: number): void {
    const streams = arrived.get(id);
    const resolve = wanted.get(id);
    if (!resolve || streams?.size !== STREAMS.length) return;
    arrived.delete(id);
    wanted.delete(id);
    resolve(STREAMS.map((name) => streams.get(name)!));
  }

  function identify(socket: Socket): void {
    const chunk: Buffer | null = socket.read();
    if (!chunk) return;
    socket.removeAllListeners('readable');
    const header = chunk.toString('latin1', 0, MAX_HEADER_BYTES);
    const [, idText, name] = header.trimEnd().split(' ');
    const id = Number(idText);
    const isStream = STREAMS.includes(name as StreamName);
    if (!isStream || header !== streamHeader(token, id, name as StreamName)) {
      socket.destroy();
      return;
    }
    const streams = arrived.get(id) ?? new Map<StreamName, Socket>();
    arrived.set(id, streams.set(name as StreamName, socket));
    // Nothing more arrives before the process starts, except for the end of a start that was given up.
    socket.once('close', () => arrived.delete(id)).resume();
    settle(id);
  }

  const server = createServer((socket) => {
    socket.on('error', () => {});
    // The header arrives in one chunk.
    socket.on('readable', () => identify(socket));
  });
  // That of a spawner that was killed.
  rmSync(path, { force: true });
  const listening = new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(path, resolve);
  });
  return {
    listening,
    take: (id) =>
      new Promise((resolve) => {
        wanted.set(id, resolve);
        settle(id);
      }),
  };
}
