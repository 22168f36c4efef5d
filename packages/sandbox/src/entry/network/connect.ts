import net from 'node:net';
import tls from 'node:tls';
import { threadId } from 'node:worker_threads';
import { type Answer, encodePreamble, type Found, MAX_HOST_BYTES, OPERATION } from '../../egress/wire.ts';
import type { Channel } from './channel.ts';
import { notAllowed, toError } from './errors.ts';

type Options = Record<string, unknown> & {
  host?: unknown;
  port?: unknown;
  path?: unknown;
  family?: unknown;
  hints?: unknown;
  lookup?: unknown;
  socket?: unknown;
};
type Normalized = [Options, ((...args: unknown[]) => void) | null];

/** What Node does not declare of its sockets. */
interface Internals {
  connecting: boolean;
  _peername: unknown;
  _writeGeneric(writev: boolean, data: Buffer, encoding: string, done: (error?: Error) => void): void;
}

type Lookup = (
  host: string,
  options: object,
  done: (error: Error | null, address: unknown, family?: number) => void,
) => void;

const normalizeArgs = (net as unknown as { _normalizeArgs(args: unknown[]): Normalized })._normalizeArgs;
const normalize = (args: unknown[]): Normalized =>
  Array.isArray(args[0]) ? (args[0] as Normalized) : normalizeArgs(args);

/** From the end of a connection to the news that it was a reset, when the relay has died. */
const RESET_NEWS_MS = 10;

/** A target that only the layer itself dials, to warm up; see `warm` in wire.ts. */
export const WARM_HOST = 'warm.invalid';

/**
 * Replaces the connecting of sockets: a native connection to the relay takes the place of the TCP connection. The
 * relay dials, and tells the outcome over the channel; until then the socket stays in the state `connecting`, in which
 * Node holds back whatever is written and read.
 * @param path of the relay's socket
 */
export function patchConnect(path: string, channel: Channel, systemLookup: () => unknown): void {
  const { prototype } = net.Socket;
  const connect = prototype.connect as (this: net.Socket, options: object) => net.Socket;
  /** By connecting socket: the TLS socket that reads in its place. */
  const readers = new WeakMap<net.Socket, net.Socket>();
  const relayed = new WeakSet<net.Socket>();

  /** The host for the preamble: itself, or the addresses that a look-up of the code gives for it. */
  async function targetOf(socket: net.Socket, host: string, options: Options): Promise<string> {
    const { family, hints, lookup } = options;
    const wanted = family === 4 || family === 6 || family === 'IPv4' || family === 'IPv6';
    const isCustom = typeof lookup === 'function' && lookup !== systemLookup();
    if (net.isIP(host) !== 0 || (!isCustom && !wanted)) return host;
    const version = wanted ? Number(String(family).slice(-1)) : 0;
    const found = await new Promise<unknown>((resolve, reject) => {
      const search = (isCustom ? lookup : systemLookup()) as Lookup;
      search(host, { family: version, hints, all: true }, (error, address, given) => {
        if (error) reject(error);
        else resolve(Array.isArray(address) ? address : [{ address, family: given }]);
      });
    });
    const addresses = (found as Found[]).map(({ address }) => String(address));
    const [first] = found as Found[];
    if (!first) throw Object.assign(new Error(`getaddrinfo ENOTFOUND ${host}`), { code: 'ENOTFOUND' });
    socket.emit('lookup', null, first.address, first.family, host);
    let list = addresses[0]!;
    for (const address of addresses.slice(1)) {
      if (list.length + address.length >= MAX_HOST_BYTES) break;
      list += `,${address}`;
    }
    return list;
  }

  /** Native connection, preamble, and the answer to it. */
  function connectThroughRelay(socket: net.Socket, host: string, port: number, options: Options): void {
    const self = socket as unknown as Internals;
    const id = channel.nextId();
    const hasOwnEmit = Object.hasOwn(socket, 'emit');
    const emit = socket.emit as (name: string | symbol, ...args: unknown[]) => boolean;
    const resolved = targetOf(socket, host, options);
    resolved.catch((error: Error) => socket.destroy(error));
    let isAsked = false;
    let failure: Error | undefined;

    const restoreEmit = () => {
      if (hasOwnEmit) socket.emit = emit as typeof socket.emit;
      else delete (socket as Partial<net.Socket>).emit;
    };

    async function sendPreamble(): Promise<void> {
      const target = await resolved;
      if (socket.destroyed) return;
      const operation = host === WARM_HOST ? OPERATION.warm : OPERATION.connect;
      const preamble = encodePreamble({ operation, channel: threadId, id, port, host: target });
      // Past the state of the stream, in which a write of the code may be waiting for the connection.
      self.connecting = false;
      self._writeGeneric(false, preamble, 'buffer', (error) => error && socket.destroy(error));
      self.connecting = true;
    }

    socket.emit = ((name: string | symbol, ...args: unknown[]) => {
      if (name === 'connect' && !isAsked) {
        isAsked = true;
        self.connecting = true;
        sendPreamble().catch(() => {});
        return true;
      }
      // Follows at once, and is about the relay, too.
      if (name === 'ready') return true;
      return emit.call(socket, name, ...args);
    }) as typeof socket.emit;

    function connected({ address, family, port: remotePort }: Found & { port: number }): void {
      channel.settled(id);
      if (socket.destroyed) return;
      restoreEmit();
      guardEnd();
      self._peername = { address, family: `IPv${family}`, port: remotePort };
      if (net.isIP(host) === 0 && options.lookup === undefined)
        socket.emit('lookup', null, address, family, host);
      self.connecting = false;
      socket.emit('connect');
      socket.emit('ready');
      if (!socket.destroyed && socket.readable && !socket.isPaused()) socket.read(0);
    }

    /** What came before a reset is read first; then there is its error, and no end. */
    function guardEnd(): void {
      const reader = readers.get(socket) ?? socket;
      const { push, _destroy: destroy } = reader;
      // A write that fails meanwhile fails by the same cause.
      reader._destroy = (error, done) => destroy.call(reader, error && (failure ?? error), done);
      reader.push = function pushOrFail(chunk: unknown, encoding?: BufferEncoding) {
        if (chunk !== null) return push.call(reader, chunk, encoding);
        // The news of a reset comes another way, perhaps a moment later.
        setTimeout(() => {
          if (failure) reader.destroy(failure);
          else if (!reader.destroyed) {
            push.call(reader, null);
            reader.read(0);
          }
        }, RESET_NEWS_MS);
        return false;
      };
    }

    function reset(error: Error): void {
      failure = error;
      channel.send({ acknowledge: id });
    }

    channel.listen(id, (answer: Answer) => {
      if ('connected' in answer) connected(answer.connected);
      else if ('reset' in answer) reset(toError(answer.reset));
      else if ('failed' in answer) {
        const error = toError(answer.failed);
        if (answer.failed.syscall === 'getaddrinfo')
          emit.call(socket, 'lookup', error, undefined, undefined, host);
        socket.destroy(error);
      }
    });
    socket.once('close', () => {
      restoreEmit();
      channel.forget(id);
      channel.send({ close: id });
    });

    if (channel.isOpen) {
      connect.call(socket, { path });
      return;
    }
    self.connecting = true;
    channel.open().then(
      () => {
        if (!socket.destroyed) connect.call(socket, { path });
      },
      (error: Error) => socket.destroy(error),
    );
  }

  prototype.connect = function connectSocket(this: net.Socket, ...args: unknown[]): net.Socket {
    const [given, callback] = normalize(args);
    // What is read here is what is dialled, whatever getters do.
    const options = { ...given };
    const { port } = options;
    const number = typeof port === 'string' || typeof port === 'number' ? Number(port) : Number.NaN;
    const isValid = Number.isInteger(number) && number >= 0 && number <= 65_535 && port !== '';
    if (options.path !== undefined && options.path !== null) {
      process.nextTick(() => this.destroy(notAllowed(`code may not use unix sockets`, 'connect')));
      return this;
    }
    // Throws what Node throws.
    if (!isValid) return connect.call(this, { ...options, host: '0.0.0.0' });
    if (this instanceof tls.TLSSocket) {
      process.nextTick(() => this.destroy(notAllowed('use tls.connect() to connect a TLSSocket', 'connect')));
      return this;
    }
    if (callback) this.once('connect', callback);
    relayed.add(this);
    const host = options.host === undefined || options.host === null ? 'localhost' : String(options.host);
    connectThroughRelay(this, host === '' ? 'localhost' : host, number, options);
    return this;
  } as typeof prototype.connect;

  const { resetAndDestroy } = prototype;
  prototype.resetAndDestroy = function reset(this: net.Socket) {
    return relayed.has(this) ? this.destroy() : resetAndDestroy.call(this);
  };

  const connectTls = tls.connect as (options: Options, callback?: unknown) => tls.TLSSocket;
  tls.connect = function connectTlsSocket(...args: unknown[]): tls.TLSSocket {
    const [options, callback] = normalize(args);
    const more = args.slice(1, 3).find((arg) => typeof arg === 'object' && arg !== null);
    const all: Options = { ...options, ...(more as object | undefined) };
    if (all.socket) return connectTls(all, callback ?? undefined);
    const inner = new net.Socket({ allowHalfOpen: all.allowHalfOpen === true });
    inner.connect(all as never);
    let outer: tls.TLSSocket;
    inner.once('connect', () => {
      (outer as unknown as Internals)._peername = (inner as unknown as Internals)._peername;
    });
    inner.on('lookup', (...found) => outer.emit('lookup', ...found));
    try {
      outer = connectTls({ ...all, socket: inner }, callback ?? undefined);
    } catch (error) {
      inner.destroy();
      throw error;
    }
    if (typeof all.timeout === 'number' && all.timeout > 0) outer.setTimeout(all.timeout);
    inner.once('ready', () => outer.emit('ready'));
    // Without a native handle, TLS reads from the stream and not from below it.
    if ((inner as unknown as { _handle: unknown })._handle) readers.set(inner, outer);
    return outer;
  } as typeof tls.connect;
}
