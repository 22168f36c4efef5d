import { createHash } from 'node:crypto';
import { chmodSync, copyFileSync, linkSync, lstatSync, realpathSync, renameSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

const ENTER = 0o001;
const READ = 0o004;

/** Whether every user may enter this directory and its parents. */
export function isEnterable(directory: string): boolean {
  for (let path = realpathSync(directory); ; path = dirname(path)) {
    if ((statSync(path).mode & ENTER) === 0) return false;
    if (path === dirname(path)) return true;
  }
}

/** Whether every user may read this file by this path. @param mode required permission bits */
function isReadable(path: string, mode: number): boolean {
  return (statSync(path).mode & mode) === mode && isEnterable(dirname(path));
}

/** Hard-links a file, or copies it if the file system or the owner forbids a link. A copy has mode 0755. */
function linkOrCopy(from: string, to: string): void {
  try {
    linkSync(from, to);
    if ((lstatSync(to).mode & (READ | ENTER)) === (READ | ENTER)) return;
  } catch {
    // Another file system, or a file of another user.
  }
  // The mode of the copy is changed, never that of the original.
  const temporary = `${to}.copy`;
  copyFileSync(from, temporary);
  chmodSync(temporary, 0o755);
  renameSync(temporary, to);
}

/**
 * Makes files readable for every user, such as the Node.js binary of a platform that is installed below /root.
 */
export interface ReadableFiles {
  /** The path itself if every user may read it, otherwise a link or a copy. */
  provide(path: string): string;
  /** A link or a copy on the file system of the directory. */
  link(path: string): string;
}

/** @param directory for the links and copies: every user may enter it, only the platform may write it */
export function createReadableFiles(directory: string): ReadableFiles {
  const linked = new Map<string, string>();
  function link(path: string): string {
    const real = realpathSync(path);
    let target = linked.get(real);
    if (target === undefined) {
      const name = createHash('sha256').update(real).digest('hex').slice(0, 8);
      target = join(directory, `${name}-${basename(real)}`);
      linkOrCopy(real, target);
      linked.set(real, target);
    }
    return target;
  }
  return {
    link,
    provide: (path) => {
      const real = realpathSync(path);
      return isReadable(real, READ) ? real : link(real);
    },
  };
}
