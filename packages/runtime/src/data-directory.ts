import { chmodSync, lstatSync, mkdirSync, readdirSync, type Stats, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Log } from '@wellspring/core/log';

const PRIVATE_DIRECTORY = 0o700;
const PRIVATE_FILE = 0o600;
const WRITABLE_BY_OTHERS = 0o002;

/** New files are for this user only. Has to be called first of all in every process. */
export function setPrivateUmask(): void {
  process.umask(0o077);
}

/**
 * Makes the data directory when it is missing, and takes away what other users may do with it and with the files in
 * it. A directory of another user, such as a volume that was mounted, is used as it is and reported.
 * @param holdsData false: only caches are in it (distributed mode), such as in an `emptyDir` of Kubernetes
 * @throws Error when anybody may write to a directory of another user that holds data: its database and keys could be
 * replaced
 */
export function prepareDataDirectory(directory: string, log: Log, holdsData: boolean): void {
  mkdirSync(directory, { recursive: true, mode: PRIVATE_DIRECTORY });
  const found = statSync(directory);
  if (!isOwn(found)) {
    if (holdsData && (found.mode & WRITABLE_BY_OTHERS) !== 0) {
      throw new Error(
        `The data directory ${directory} belongs to user ${found.uid} and everybody may write to it: ` +
          `run chown ${process.getuid?.()} ${directory}, or set WELLSPRING_DATA_DIR to another directory.`,
      );
    }
    log.warn(
      { directory, owner_uid: found.uid, own_uid: process.getuid?.() },
      'data_directory.foreign_owner',
    );
  } else if ((found.mode & 0o777) !== PRIVATE_DIRECTORY) chmodSync(directory, PRIVATE_DIRECTORY);
  for (const name of readdirSync(directory)) makePrivate(join(directory, name));
}

const isOwn = ({ uid }: Stats) => process.getuid === undefined || uid === process.getuid();

/** Links are left alone: what they lead to may be anything. */
function makePrivate(path: string): void {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found || !isOwn(found)) return;
  const others = found.mode & 0o077;
  if (others === 0) return;
  if (found.isFile()) chmodSync(path, PRIVATE_FILE);
  else if (found.isDirectory()) chmodSync(path, PRIVATE_DIRECTORY);
}
