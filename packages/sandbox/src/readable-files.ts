import { createHash } from 'node:crypto';
import { chmodSync, copyFileSync, linkSync, lstatSync, realpathSync, renameSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

const ENTER = 0o001;
const READ = 0o004;

/** Whether every user may enter this directory and those above it. */
export function isEnterable(directory: string): boolean {
  for (let path = realpathSync(directory); ; path = dirname(path)) {
    if ((statSync(path).mode & ENTER) === 0) return false;
    if (path === dirname(path)) return true;
  }
}

/** Whether every user may read this file, by this path. @param mode permission bits that it needs */
function isReadable(path: string, mode: number): boolean {
  return (statSync(path).mode & mode) === mode && isEnterable(dirname(path));
}

/** Hard-links a file, or copies it where the file system or the owner forbids a link. The result has mode 0755. */
function linkOrCopy(from: string, to: string): void {
  try {
    linkSync(from, to);
    if ((lstatSync(to).mode & (READ | ENTER)) === (READ | ENTER)) return;
  } catch {
    // Another file system, or somebody else's file.
  }
  // A mode that shuts others out is changed for the copy, never for the original.
  const temporary = `${to}.copy`;
  copyFileSync(from, temporary);
  chmodSync(temporary, 0o755);
  renameSync(temporary, to);
}

/**
 * Gives paths by which every user may read files that perhaps only the platform may read, such as the Node.js binary of
 * a platform that is installed below /root.
 */
export interface ReadableFiles {
  /** The file itself when every user may read it, else a link or a copy. */
  provide(path: string): string;
  /** A link or a copy on the file system of the directory, also when other users cannot read the file. */
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
