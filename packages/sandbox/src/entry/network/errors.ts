import { constants } from 'node:os';
import type { WireError } from '../../egress/wire.ts';

/** Numbers that libuv gives to errors of look-ups. */
const LOOKUP_ERRNO: Record<string, number> = { ENOTFOUND: -3008, EAI_AGAIN: -3001 };

/** An error of the relay as Node's own sockets and look-ups would give it. */
export function toError({ code, message, ...details }: WireError): NodeJS.ErrnoException {
  const errno = LOOKUP_ERRNO[code] ?? -(constants.errno as Record<string, number>)[code]!;
  return Object.assign(new Error(message), Number.isNaN(errno) ? {} : { errno }, { code, ...details });
}

/** An operation that the sandbox does not have. */
export const notAllowed = (what: string, syscall: string): NodeJS.ErrnoException =>
  Object.assign(new Error(`${syscall} EACCES: ${what}`), {
    errno: -constants.errno.EACCES,
    code: 'EACCES',
    syscall,
  });
