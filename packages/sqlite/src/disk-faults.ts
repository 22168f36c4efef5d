import { rm, writeFile } from 'node:fs/promises';
import { asUnavailable, Unavailable } from '@wellspring/core/unavailable';

/** Written to see whether there is room again, in bytes: as much as a batch of events. */
const PROBE_BYTES = 1024 * 1024;

/** BUSY, LOCKED, NOMEM, READONLY, IOERR, FULL, CANTOPEN. */
const TRANSIENT = new Set([5, 6, 7, 8, 10, 13, 14]);

/** Faults of the disk, and locks, become Unavailable. The lower byte of SQLite's code is the kind of the error. */
export function translate(error: unknown): unknown {
  const { errcode, message } = (error ?? {}) as { errcode?: number; message?: string };
  if (errcode === undefined || !TRANSIENT.has(errcode & 0xff)) return asUnavailable(error);
  return new Unavailable(`The database cannot be written: ${message}`, { cause: error });
}

/** Writes and removes a file. @throws Error while the disk is full */
export async function probeDisk(file: string): Promise<void> {
  try {
    await writeFile(file, Buffer.alloc(PROBE_BYTES), { flush: true });
  } finally {
    await rm(file, { force: true }).catch(() => {});
  }
}
