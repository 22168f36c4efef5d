import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A proxy to a server, with faults of networks. */
export interface Network extends AsyncDisposable {
  /** URL of the server through the proxy. */
  readonly url: string;
  /** Sockets of both sides. */
  readonly sockets: number;
  /** Resets all connections. */
  cut(): void;
  /** Drops all further data silently. */
  silence(): void;
  /** Passes data of new connections; earlier ones stay silent. */
  heal(): void;
}

/** @param url of a server on this machine */
export async function openNetwork(url: string): Promise<Network> {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  let silent = false;
  const keep = (socket: Socket) => {
    sockets.add(socket);
    return socket.on('error', () => {}).on('close', () => sockets.delete(socket));
  };
  const between = createServer((near) => {
    keep(near);
    if (silent) return near.resume();
    const far = keep(connect(Number(port), hostname));
    near.pipe(far).pipe(near);
    near.once('close', () => far.destroy());
    far.once('close', () => near.destroy());
  }).listen(0, '127.0.0.1');
  await once(between, 'listening');
  const own = new URL(url);
  own.host = `127.0.0.1:${(between.address() as AddressInfo).port}`;
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: own.href,
    get sockets() {
      return sockets.size;
    },
    cut,
    silence() {
      silent = true;
      for (const socket of sockets) socket.unpipe().resume();
    },
    heal() {
      silent = false;
    },
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => between.close(resolve));
      cut();
      await closed;
    },
  };
}
