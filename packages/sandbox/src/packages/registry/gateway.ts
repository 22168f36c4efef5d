import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, ListenOptions } from 'node:net';
import { pipeline } from 'node:stream/promises';
import type { DiskRoom } from '../../disk-room.ts';
import type { GatewayAddress } from '../jail/jail.ts';
import { PACKAGE_NAME } from './packument.ts';
import { createPackumentTexts } from './packument-texts.ts';
import { createSession, type Session } from './session.ts';
import type { RegistrySettings } from './settings.ts';
import type { Tarballs } from './tarballs.ts';
import { RegistryRefused, RegistryStatus, type Upstream } from './upstream.ts';

/**
 * The registry for the package manager in the jail: serves only packuments and tarballs of the configured registries.
 * The jail gets neither credentials nor proxy settings.
 */
export interface Gateway {
  address: GatewayAddress;
  /** Gives one run of the package manager access. */
  open(options: OpenOptions): OpenSession;
  close(): Promise<void>;
}

export interface OpenOptions {
  /** Tarballs that may be fetched, by `name@version`, with their integrity; undefined if there are none. */
  tarballs?: ReadonlyMap<string, string>;
  /** Space for tarballs that are fetched. */
  room?: DiskRoom;
  /** Session of an earlier run, whose knowledge of the registry is reused. */
  session?: Session;
  /** Of a new session: packuments are fetched, even if they are kept. */
  fresh?: boolean;
}

export interface OpenSession {
  /** First segment of the path of every request; requests without it get 404. */
  token: string;
  session: Session;
  close(): void;
}

interface Open {
  session: Session;
  tarballs: ReadonlyMap<string, string>;
  room: DiskRoom | undefined;
  /** Sent to the package manager. */
  bytes: number;
  /** Fetched and kept. */
  fetchedBytes: number;
}

/** Total size of tarballs of one installation. */
const MAX_SESSION_BYTES = 512 * 1024 * 1024;

export interface GatewayOptions {
  socket: string;
  settings: RegistrySettings;
  upstream: Upstream;
  tarballs: Tarballs;
  now(): number;
  /** Whether it also listens on 127.0.0.1. */
  loopback?: boolean;
}

/** `/token/@scope%2fname` and `/token/@scope/name/-/name-1.0.0.tgz` */
function parsePath(url: string): { token: string; name: string; version?: string } | undefined {
  const [, token = '', ...rest] = (url.split('?')[0] ?? '').split('/');
  const path = decodeURIComponent(rest.join('/'));
  const [name = '', file, ...more] = path.split('/-/');
  if (!PACKAGE_NAME.test(name) || more.length > 0) return undefined;
  if (file === undefined) return { token, name };
  const start = `${name.split('/').at(-1)}-`;
  if (!file.startsWith(start) || !file.endsWith('.tgz')) return undefined;
  return { token, name, version: file.slice(start.length, -4) };
}

export async function createGateway(options: GatewayOptions): Promise<Gateway> {
  const { socket, settings, upstream, tarballs, now, loopback = false } = options;
  const sessions = new Map<string, Open>();
  const texts = createPackumentTexts(upstream, now);

  async function sendPackument({ session }: Open, base: string, name: string, response: ServerResponse) {
    const body = JSON.stringify(await session.packument(name, base));
    response.writeHead(200, { 'content-type': 'application/json' }).end(body);
  }

  async function sendTarball(open: Open, name: string, version: string, response: ServerResponse) {
    const { session } = open;
    const integrity = open.tarballs.get(`${name}@${version}`);
    if (integrity === undefined) throw new RegistryStatus(404);
    const fetchTarball = async () => {
      const { url } = await session.tarball(name, version);
      return upstream.get(url, { accept: '*/*' });
    };
    const take = (bytes: number) => {
      open.fetchedBytes += bytes;
      if (open.fetchedBytes > MAX_SESSION_BYTES) throw new Error('the installation is too large');
      open.room?.take(bytes);
    };
    try {
      const file = await tarballs.read(integrity, now(), fetchTarball, take);
      response.writeHead(200, { 'content-type': 'application/octet-stream' });
      file.on('data', (chunk) => {
        open.bytes += chunk.length;
        if (open.bytes > MAX_SESSION_BYTES) file.destroy(new Error('the installation is too large'));
      });
      await pipeline(file, response);
    } catch (error) {
      if (error instanceof RegistryStatus && error.isPermanent)
        session.exclude(name, version, `its tarball was not found (status ${error.status})`);
      else if (error instanceof RegistryStatus) session.setUnreachable();
      else if (error instanceof RegistryRefused) session.exclude(name, version, error.message);
      throw error;
    }
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.method === 'GET' ? parsePath(request.url ?? '') : undefined;
    const open = path && sessions.get(path.token);
    if (!path || !open) throw new RegistryStatus(404);
    if (path.version !== undefined) return sendTarball(open, path.name, path.version, response);
    // The host header contains the port of the forwarder inside the jail, if there is one.
    return sendPackument(open, `http://${request.headers.host}/${path.token}/`, path.name, response);
  }

  const listener = (request: IncomingMessage, response: ServerResponse) => {
    handle(request, response).catch((error: unknown) => {
      if (response.headersSent) return response.destroy();
      const status = error instanceof RegistryStatus && error.isPermanent ? error.status : 502;
      // Statuses after which the package manager does not retry: the gateway has already retried.
      response.writeHead(error instanceof RegistryRefused ? 404 : status).end();
    });
  };
  const servers: Server[] = [];
  async function listen(where: ListenOptions): Promise<Server> {
    const server = createServer(listener);
    server.maxHeadersCount = 50;
    servers.push(server);
    await once(server.listen(where), 'listening');
    return server;
  }
  rmSync(socket, { force: true });
  await listen({ path: socket });
  // The jail runs as another user; the token excludes others.
  chmodSync(socket, 0o666);
  const address: GatewayAddress = { socket };
  if (loopback) address.port = ((await listen({ host: '127.0.0.1', port: 0 })).address() as AddressInfo).port;

  return {
    address,
    open({ tarballs: allowed = new Map(), room, session: earlier, fresh = false }) {
      const token = randomBytes(16).toString('hex');
      const session = earlier ?? createSession({ settings, texts, now: now(), fresh });
      sessions.set(token, { session, tarballs: allowed, room, bytes: 0, fetchedBytes: 0 });
      return {
        token,
        session,
        close() {
          sessions.delete(token);
        },
      };
    },
    async close() {
      for (const server of servers) server.closeAllConnections();
      await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
      upstream.close();
      rmSync(socket, { force: true });
    },
  };
}
