import { chmodSync, lstatSync, mkdirSync, readdirSync, type Stats, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Log } from '@wellspring/core/log';

const PRIVATE_DIRECTORY = 0o700;
const PRIVATE_FILE = 0o600;
const WRITABLE_BY_OTHERS = 0o002;

/** Makes new files accessible to this user only. Must be the first call of every process. */
export function setPrivateUmask(): void {
  process.umask(0o077);
}

const FILE_FAULTS = new Set(
  'EACCES EDQUOT EEXIST EIO EISDIR ELOOP ENAMETOOLONG ENOENT ENOSPC ENOTDIR EPERM EROFS'.split(' '),
);
/** Kinds of errors of SQLite: READONLY, IOERR, FULL, CANTOPEN, NOTADB. */
const SQLITE_FAULTS = new Set([8, 10, 13, 14, 26]);
const isFileFault = ({ code, errcode = 0, cause }: SystemError): boolean =>
  SQLITE_FAULTS.has(errcode & 0xff) ||
  FILE_FAULTS.has(code ?? '') ||
  (cause !== undefined && isFileFault(cause));

interface SystemError {
  message: string;
  code?: string;
  errcode?: number;
  cause?: SystemError;
}

/**
 * An error of a file in the data directory as one that names the directory and its setting; others are returned as they
 * are.
 */
export function explainFault(directory: string, error: unknown): unknown {
  if (!isFileFault(error as SystemError)) return error;
  return new Error(
    `The data directory ${directory} cannot be used: ${(error as SystemError).message}. Correct it, or set WELLSPRING_DATA_DIR to another directory.`,
    { cause: error },
  );
}

/**
 * Creates the data directory if it is missing, and removes the permissions of other users on it and its files. A
 * directory of another user, such as a mounted volume, is used unchanged and reported.
 * @param holdsData false: it contains only caches (distributed mode)
 * @throws Error if it cannot be used; also for a directory of another user with data that anybody may write to: its
 * database and keys could be replaced
 */
export function prepareDataDirectory(directory: string, log: Log, holdsData: boolean): void {
  try {
    prepare(directory, log, holdsData);
  } catch (error) {
    throw explainFault(directory, error);
  }
}

const isDirectory = (path: string) => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;

/** With `recursive`, Node.js loops forever where a directory exists, but takes no entries, as in /proc. */
function makeDirectory(path: string): void {
  if (isDirectory(path)) return;
  makeDirectory(dirname(path));
  try {
    mkdirSync(path, { mode: PRIVATE_DIRECTORY });
  } catch (error) {
    // Another process may have been faster.
    if (!isDirectory(path)) throw error;
  }
}

function prepare(directory: string, log: Log, holdsData: boolean): void {
  makeDirectory(directory);
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

/** Links are skipped: their targets are unknown. */
function makePrivate(path: string): void {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found || !isOwn(found)) return;
  const others = found.mode & 0o077;
  if (others === 0) return;
  if (found.isFile()) chmodSync(path, PRIVATE_FILE);
  else if (found.isDirectory()) chmodSync(path, PRIVATE_DIRECTORY);
}
