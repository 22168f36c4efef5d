import net from 'node:net';
import tls from 'node:tls';
import { threadId } from 'node:worker_threads';
import {
  type Answer,
  encodePreamble,
  type FoundAddress,
  MAX_HOST_BYTES,
  OPERATION,
} from '../../egress/wire.ts';
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

/** Undocumented members of Node's sockets. */
interface Internals {
  connecting: boolean;
  _peername: unknown;
  /** The first write of a connecting socket, which is made when `connect` is emitted. */
  _pendingData: unknown;
  _pendingEncoding: string;
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

/** Bytes of a first write that are sent with the preamble. */
const MAX_EARLY_BYTES = 16 * 1024;
/** Time between the end of a connection and the report that it was a reset, if the relay has ended. */
const RESET_NEWS_MS = 10;

/** Target of warm-up requests; see `warm` in wire.ts. */
export const WARM_HOST = 'warm.invalid';

/**
 * The bytes that the code writes first, if it does not wait for the connection. The relay keeps them until it is
 * established, so that the request need not wait for the answer of the relay.
 */
function firstWrite({ _pendingData: data, _pendingEncoding: encoding }: Internals): Uint8Array {
  const isText = typeof data === 'string';
  if (!isText && !(data instanceof Uint8Array)) return Buffer.alloc(0);
  const bytes = isText ? Buffer.from(data, encoding as BufferEncoding) : data;
  return bytes.length <= MAX_EARLY_BYTES ? bytes : Buffer.alloc(0);
}

/**
 * Connects sockets to the relay instead of the target. The relay dials and reports the outcome over the channel; until
 * then the socket stays in the state `connecting`, in which Node queues reads and writes.
 * @param path of the relay's socket
 */
export function patchConnect(path: string, channel: Channel, systemLookup: () => unknown): void {
  const { prototype } = net.Socket;
  const connect = prototype.connect as (this: net.Socket, options: object) => net.Socket;
  /** By connecting socket: the TLS socket that reads from its handle. */
  const readers = new WeakMap<net.Socket, net.Socket>();
  const relayed = new WeakSet<net.Socket>();

  /** Host of the preamble: the host itself, or the addresses that a `lookup` function of the code returns. */
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
    const addresses = (found as FoundAddress[]).map(({ address }) => String(address));
    const [first] = found as FoundAddress[];
    if (!first) throw Object.assign(new Error(`getaddrinfo ENOTFOUND ${host}`), { code: 'ENOTFOUND' });
    socket.emit('lookup', null, first.address, first.family, host);
    let list = addresses[0]!;
    for (const address of addresses.slice(1)) {
      if (list.length + address.length >= MAX_HOST_BYTES) break;
      list += `,${address}`;
    }
    return list;
  }

  /** Opens the native connection, sends the preamble and handles answers. */
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
      const early = firstWrite(self);
      // Bypasses the stream, in which a write of the code may wait for the connection.
      self.connecting = false;
      const bytes = Buffer.concat([preamble, early]);
      self._writeGeneric(false, bytes, 'buffer', (error) => error && socket.destroy(error));
      self.connecting = true;
      if (early.length > 0) skipFirstWrite();
    }

    /** Node makes the first write when `connect` is emitted. */
    function skipFirstWrite(): void {
      self._writeGeneric = (_writev, _data, _encoding, done) => {
        restoreWrite();
        done();
      };
    }

    function restoreWrite(): void {
      delete (self as Partial<Internals>)._writeGeneric;
    }

    socket.emit = ((name: string | symbol, ...args: unknown[]) => {
      if (name === 'connect' && !isAsked) {
        isAsked = true;
        self.connecting = true;
        sendPreamble().catch(() => {});
        return true;
      }
      // Follows `connect` immediately and also concerns the relay.
      if (name === 'ready') return true;
      return emit.call(socket, name, ...args);
    }) as typeof socket.emit;

    function connected({ address, family, port: remotePort }: FoundAddress & { port: number }): void {
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

    /** After a reset, the bytes before it are read, then the error is emitted instead of an end. */
    function guardEnd(): void {
      const reader = readers.get(socket) ?? socket;
      const { push, _destroy: destroy } = reader;
      // A concurrent failed write gets the same error.
      reader._destroy = (error, done) => destroy.call(reader, error && (failure ?? error), done);
      reader.push = function pushOrFail(chunk: unknown, encoding?: BufferEncoding) {
        if (chunk !== null) return push.call(reader, chunk, encoding);
        // The report of a reset arrives over the channel, perhaps later.
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
      restoreWrite();
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
    // Reads each property once, since getters may return different values.
    const options = { ...given };
    const { port } = options;
    const number = typeof port === 'string' || typeof port === 'number' ? Number(port) : Number.NaN;
    const isValid = Number.isInteger(number) && number >= 0 && number <= 65_535 && port !== '';
    if (options.path !== undefined && options.path !== null) {
      process.nextTick(() => this.destroy(notAllowed(`code may not use unix sockets`, 'connect')));
      return this;
    }
    // Throws Node's error.
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
    // Without a native handle, TLS reads from the stream.
    if ((inner as unknown as { _handle: unknown })._handle) readers.set(inner, outer);
    return outer;
  } as typeof tls.connect;
}
