import { createHash, randomBytes } from 'node:crypto';
import { chmodSync, lstatSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { copyFile, link, mkdir, readdir, readlink, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * The directories of processes: one each, with the code and the packages that it runs, never used again. They lie
 * outside of the data directory, which only the platform may enter.
 */
export interface Slots {
  /** For programs and the like that all processes share. */
  shared: string;
  create(): string;
  /** Puts the code and its packages into a slot, hard-linked where that is possible. */
  fill(slot: string, file: { path: string; name: string }, nodeModules: string | undefined): Promise<void>;
  remove(slot: string): void;
  close(): void;
}

/** A directory of ours, empty; the same one for the same data, so that nothing is left behind by a crash. */
function baseFor(dataDir: string): string {
  const path = join(
    tmpdir(),
    `wellspring-${createHash('sha256').update(dataDir).digest('hex').slice(0, 16)}`,
  );
  try {
    mkdirSync(path, { mode: 0o711 });
  } catch {
    const found = lstatSync(path);
    // Somebody else's directory, or a link: not to be trusted.
    if (!found.isDirectory() || found.uid !== process.getuid?.()) return mkdtempSync(`${path}-`);
    rmSync(path, { recursive: true, force: true });
    mkdirSync(path, { mode: 0o711 });
  }
  return path;
}

async function linkFile(from: string, to: string): Promise<void> {
  await link(from, to).catch((error: { code?: string }) => {
    if (error.code === 'EXDEV' || error.code === 'EPERM' || error.code === 'EMLINK')
      return copyFile(from, to);
    throw error;
  });
}

async function linkTree(from: string, to: string): Promise<void> {
  await mkdir(to, { mode: 0o755 });
  await Promise.all(
    (await readdir(from, { withFileTypes: true })).map(async (entry) => {
      const [source, target] = [join(from, entry.name), join(to, entry.name)];
      if (entry.isDirectory()) await linkTree(source, target);
      else if (entry.isSymbolicLink()) {
        const path = await readlink(source);
        // A link that leads out of the packages leads nowhere.
        if (!path.startsWith('/')) await symlink(path, target);
      } else if (entry.isFile()) await linkFile(source, target);
    }),
  );
}

export function createSlots(dataDir: string): Slots {
  const base = baseFor(dataDir);
  chmodSync(base, 0o711);
  const shared = join(base, 'shared');
  mkdirSync(shared, { mode: 0o755 });
  return {
    shared,
    create() {
      const slot = join(base, randomBytes(12).toString('hex'));
      mkdirSync(slot, { mode: 0o755 });
      return slot;
    },
    async fill(slot, { path, name }, nodeModules) {
      await linkFile(path, join(slot, name));
      if (nodeModules !== undefined) await linkTree(nodeModules, join(slot, 'node_modules'));
    },
    remove(slot) {
      rm(slot, { recursive: true, force: true }).catch(() => {});
    },
    close: () => rmSync(base, { recursive: true, force: true }),
  };
}
