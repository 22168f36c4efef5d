/**
 * Protocol between a sandbox and the relay. A sandbox reaches the relay through one unix socket, and every connection
 * to that socket starts with a preamble:
 *
 *     u8 operation, u32 channel, u32 id, u16 port, u8 length of the host, host (all numbers big endian)
 *
 * `control` opens the channel of a thread: lines of JSON in both directions with the outcome of connections and the
 * answers to look-ups. `connect` requests a TCP connection; its outcome is sent over the channel, and all bytes after
 * the preamble belong to the TCP connection, so that TLS works on the native handle. `warm` answers any request with a
 * fixed HTTP response; processes of the pool use it to warm up.
 */
export const OPERATION = { control: 0, connect: 1, warm: 2 } as const;
export type Operation = (typeof OPERATION)[keyof typeof OPERATION];

export interface Preamble {
  operation: Operation;
  /** Chosen by the thread; unique within the sandbox. */
  channel: number;
  /** Chosen by the thread; identifies the connection on its channel. */
  id: number;
  /** 0 for operations without a target. */
  port: number;
  /** A name or an address literal without brackets; at most 255 bytes. */
  host: string;
}

const HEAD_BYTES = 12;
/** Maximum length of a host name. */
export const MAX_HOST_BYTES = 255;
export const MAX_PREAMBLE_BYTES = HEAD_BYTES + MAX_HOST_BYTES;
/** Maximum length of a line to the relay. */
export const MAX_LINE_BYTES = 2048;

export function encodePreamble({ operation, channel, id, port, host }: Preamble): Buffer {
  const name = Buffer.from(host, 'utf8');
  const bytes = Buffer.allocUnsafe(HEAD_BYTES + name.length);
  bytes[0] = operation;
  bytes.writeUInt32BE(channel, 1);
  bytes.writeUInt32BE(id, 5);
  bytes.writeUInt16BE(port, 9);
  bytes[11] = name.length;
  name.copy(bytes, HEAD_BYTES);
  return bytes;
}

/**
 * @returns the preamble and the number of its bytes; undefined if it is incomplete
 * @throws RangeError for an unknown operation or a host that is not printable ASCII
 */
export function decodePreamble(bytes: Buffer): { preamble: Preamble; length: number } | undefined {
  const operation = bytes[0] as Operation | undefined;
  if (operation === undefined) return undefined;
  if (operation > OPERATION.warm) throw new RangeError('Unknown operation');
  if (bytes.length < HEAD_BYTES) return undefined;
  const length = HEAD_BYTES + bytes[11]!;
  if (bytes.length < length) return undefined;
  const host = bytes.toString('latin1', HEAD_BYTES, length);
  if (!/^[\x21-\x7e]*$/.test(host)) throw new RangeError('Invalid characters in the host');
  return {
    preamble: {
      operation,
      channel: bytes.readUInt32BE(1),
      id: bytes.readUInt32BE(5),
      port: bytes.readUInt16BE(9),
      host,
    },
    length,
  };
}

/** Fields of an error of Node's sockets and look-ups. */
export interface WireError {
  code: string;
  message: string;
  syscall: string;
  address?: string;
  port?: number;
  hostname?: string;
}

export interface FoundAddress {
  address: string;
  family: 4 | 6;
}

/** From the relay. */
export type Answer = { id: number } & (
  | { connected: FoundAddress & { port: number } }
  /** The connection was not established. */
  | { failed: WireError }
  /** The connection was reset; it is closed once this is acknowledged. */
  | { reset: WireError }
  | { found: FoundAddress[] }
  /** In the format of `dns.resolve`. */
  | { records: unknown }
);

/** From a thread of the sandbox. */
export type Question =
  | { id: number; lookup: string }
  | { id: number; resolve: string; type: string }
  /** The `reset` of this connection was received. */
  | { acknowledge: number }
  /** The connection was closed by the sandbox. */
  | { close: number };

/**
 * Splits a stream of bytes into lines.
 * @param maxBytes maximum length of a line; reading stops after a longer one
 * @throws RangeError for a longer line
 */
export function createLineReader(maxBytes: number, onLine: (line: string) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0);
  return (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let from = 0;
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10, from)) {
      if (end - from > maxBytes) break;
      onLine(rest.toString('utf8', from, end));
      from = end + 1;
    }
    rest = rest.subarray(from);
    if (rest.length > maxBytes) throw new RangeError(`A line is longer than ${maxBytes} bytes`);
  };
}
