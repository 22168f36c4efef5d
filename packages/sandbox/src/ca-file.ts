import { chmodSync, copyFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Log } from '@wellspring/core/log';

/**
 * Copies a file of certificate authorities, so that every user may read it.
 * @param directory every user may enter it
 * @returns path of the copy; undefined if the file cannot be read, which is logged
 */
export function copyCaFile(path: string, directory: string, log: Log): string | undefined {
  const copy = join(directory, 'ca.pem');
  try {
    copyFileSync(path, copy);
    chmodSync(copy, 0o644);
    return copy;
  } catch (error) {
    log.warn({ path, error: String(error) }, 'sandbox.ca_unreadable');
    return undefined;
  }
}
