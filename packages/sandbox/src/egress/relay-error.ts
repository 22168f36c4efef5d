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

/** @returns the name by which errors of `dns.resolve` call a question: `querySrv` */
export const queryOf = (type: string): string => `query${type.slice(0, 1)}${type.slice(1).toLowerCase()}`;

/** @param reason for the author of the code */
export function recordsError(code: string, hostname: string, type: string, reason?: string): RelayError {
  const syscall = queryOf(type);
  const message = `${syscall} ${code} ${hostname}`;
  return new RelayError({
    code,
    syscall,
    hostname,
    message: reason === undefined ? message : `${message}: ${reason}`,
  });
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
