import type { WireError } from './wire.ts';

/** An error for user code, with the fields of errors of Node's sockets and look-ups. */
export class RelayError extends Error {
  override readonly name = 'RelayError';
  readonly wire: WireError;
  constructor(wire: WireError) {
    super(wire.message);
    this.wire = wire;
  }
}

/** Converts an error of Node's sockets or look-ups; omits addresses that names resolved to. */
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
