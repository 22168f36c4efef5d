import type { WireError } from './wire.ts';

/** An error that the code of a sandbox sees, in the shape that Node's sockets and look-ups give theirs. */
export class RelayError extends Error {
  override readonly name = 'RelayError';
  readonly wire: WireError;
  constructor(wire: WireError) {
    super(wire.message);
    this.wire = wire;
  }
}

/** An error of Node's sockets or look-ups for the wire. Says nothing of addresses that names resolved to. */
export function toWire(
  error: unknown,
  fallback: { syscall: string; address?: string; port?: number },
): WireError {
  if (error instanceof RelayError) return error.wire;
  const {
    code = 'ECONNRESET',
    syscall = fallback.syscall,
    hostname,
  } = error as NodeJS.ErrnoException & {
    hostname?: string;
  };
  const { address, port } = fallback;
  if (hostname !== undefined) return { code, syscall, hostname, message: `${syscall} ${code} ${hostname}` };
  const target = address === undefined ? '' : ` ${address}:${port}`;
  return { ...fallback, code, syscall, message: `${syscall} ${code}${target}` };
}
