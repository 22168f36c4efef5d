import { rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { STREAMS, type StreamName, streamHeader } from './messages.ts';

export interface Streams {
  listening: Promise<void>;
  close(): void;
  /**
   * Waits for the streams of a process; call it once for each id.
   * @returns them in the order of `STREAMS`
   * @throws Error if they do not arrive
   */
  take(id: number): Promise<Socket[]>;
}

/** The platform connects before it orders a start; a connection is lost if this process may open no more files. */
const ARRIVAL_MS = 10_000;
/** Of connections that were not accepted yet; the kernel limits it further, and refuses more. */
const BACKLOG = 4096;
/** Longer than any header. */
const MAX_HEADER_BYTES = 128;

/**
 * Accepts the streams of processes: connections that begin with a header, see messages.ts.
 * @param path of the socket to listen on
 * @param token connections without it are refused
 * @param arrivalMs maximum time from a connection to its header, and from a `take` to the streams
 */
export function acceptStreams(path: string, token: string, arrivalMs = ARRIVAL_MS): Streams {
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
    socket.setTimeout(0);
    const streams = arrived.get(id) ?? new Map<StreamName, Socket>();
    arrived.set(id, streams.set(name as StreamName, socket));
    // Nothing more arrives before the process starts, except for the end of a start that was given up.
    socket.once('close', () => arrived.get(id) === streams && arrived.delete(id)).resume();
    settle(id);
  }

  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.setTimeout(arrivalMs, () => socket.destroy());
    // The header arrives in one chunk.
    socket.on('readable', () => identify(socket));
  });
  // That of a spawner that was killed.
  rmSync(path, { force: true });
  const listening = new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen({ path, backlog: BACKLOG }, resolve);
  });
  return {
    listening,
    close: () => void server.close(),
    take(id) {
      const { promise, resolve, reject } = Promise.withResolvers<Socket[]>();
      const timer = setTimeout(() => {
        wanted.delete(id);
        for (const socket of arrived.get(id)?.values() ?? []) socket.destroy();
        reject(new Error('the streams of the process did not arrive'));
      }, arrivalMs);
      wanted.set(id, (streams) => {
        clearTimeout(timer);
        resolve(streams);
      });
      settle(id);
      return promise;
    },
  };
}
