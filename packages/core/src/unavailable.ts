/** A required server does not answer. Transient: HTTP answers 503, workers retry. */
export class Unavailable extends Error {
  override readonly name: string = 'Unavailable';
}

/** A message was not sent, and will not be: what was stored for it can be removed. */
export class NotSent extends Unavailable {
  override readonly name = 'NotSent';
}

/** A server refuses an operation that the platform's account on it has no right to; an operator can grant the right. */
export class AccessDenied extends Unavailable {
  override readonly name = 'AccessDenied';
}

/** Errors of a full or failing disk, a quota, a read-only file system. */
const DISK_ERRORS = new Set(['ENOSPC', 'EDQUOT', 'EROFS', 'EIO', 'EFBIG', 'EMFILE', 'ENFILE']);

/** Converts an error of a full or failing disk to Unavailable; returns other errors unchanged. */
export function asUnavailable(error: unknown): unknown {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: string };
  if (error instanceof Unavailable || !DISK_ERRORS.has(code as string)) return error;
  return new Unavailable(`The disk takes no writes: ${message}`, { cause: error });
}
