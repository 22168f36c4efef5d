import { constants } from 'node:os';
import type { WireError } from '../../egress/wire.ts';

/** Numbers of look-up errors in libuv. */
const LOOKUP_ERRNO: Record<string, number> = { ENOTFOUND: -3008, EAI_AGAIN: -3001 };

/** Converts an error of the relay to one of Node's sockets and look-ups. */
export function toError({ code, message, ...details }: WireError): NodeJS.ErrnoException {
  const errno = LOOKUP_ERRNO[code] ?? -(constants.errno as Record<string, number>)[code]!;
  return Object.assign(new Error(message), Number.isNaN(errno) ? {} : { errno }, { code, ...details });
}

/** The error of an operation that the sandbox does not allow. */
export const notAllowed = (what: string, syscall: string): NodeJS.ErrnoException =>
  Object.assign(new Error(`${syscall} EACCES: ${what}`), {
    errno: -constants.errno.EACCES,
    code: 'EACCES',
    syscall,
  });
