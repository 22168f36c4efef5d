import { chmodSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';

/** After more connections than this within a second, listening pauses for a second. */
const FLOOD = 300;
const SECOND_MS = 1000;

/**
 * Listens on the unix socket of a sandbox; pauses during a flood and after an error.
 * @param path every user who can enter its directory may connect
 * @returns a function that stops listening
 */
export function listen(path: string, accept: (socket: Socket) => void): () => void {
  let server: Server | undefined;
  let pause: NodeJS.Timeout | undefined;
  let closed = false;
  let second = 0;
  let inSecond = 0;

  function isFlooding(): boolean {
    const now = Math.floor(performance.now() / SECOND_MS);
    inSecond = now === second ? inSecond + 1 : 1;
    second = now;
    return inSecond > FLOOD;
  }

  function stop(): void {
    server?.close();
    server = undefined;
  }

  function pauseListening(): void {
    stop();
    if (!closed) pause ??= setTimeout(start, SECOND_MS);
  }

  function openToAll(): void {
    try {
      chmodSync(path, 0o777);
    } catch {
      // The sandbox was removed; `close` follows.
    }
  }

  function start(): void {
    pause = undefined;
    if (closed) return;
    rmSync(path, { force: true });
    server = createServer({ allowHalfOpen: true }, (socket) => {
      if (!isFlooding()) return accept(socket);
      socket.destroy();
      pauseListening();
    });
    server.listen(path, openToAll);
    server.on('error', pauseListening);
  }
  start();

  return () => {
    closed = true;
    clearTimeout(pause);
    stop();
  };
}
