import { closeSync, mkdirSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/** A database that nothing refers to is closed by the garbage collector, which would end its lock. */
const held = new Set<DatabaseSync>();

/**
 * Locks a data directory for this process. It is a file lock of the operating system, which ends with the process.
 * @returns a function that releases it
 * @throws Error when another process holds the lock
 */
export function lockDirectory(directory: string): () => void {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const path = join(directory, 'lock');
  closeSync(openSync(path, 'a', 0o600));
  const db = new DatabaseSync(path);
  try {
    db.exec('PRAGMA locking_mode = EXCLUSIVE');
    db.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    db.close();
    if (/locked|busy/i.test(String(error))) {
      throw new Error(`The data directory ${directory} is in use by another process.`);
    }
    throw error;
  }
  held.add(db);
  return () => {
    held.delete(db);
    db.close();
  };
}
