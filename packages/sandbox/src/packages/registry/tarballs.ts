import { createHash, randomBytes } from 'node:crypto';
import type { ReadStream } from 'node:fs';
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { RegistryRefused } from './upstream.ts';

/** Tarballs on disk, by integrity. A tarball is stored only if it is complete and its hash matches. */
export interface Tarballs {
  /**
   * @param take called before bytes are written
   * @throws RegistryRefused: the hash differs, or the tarball exceeds MAX_TARBALL_BYTES; errors of `fetch` and `take`
   */
  read(integrity: string, now: number, fetch: () => Promise<Readable>, take: Take): Promise<ReadStream>;
}

type Take = (bytes: number) => void;

const MAX_TARBALL_BYTES = 128 * 1024 * 1024;

/** The strongest hash of an integrity. */
function strongest(integrity: string): { algorithm: string; digest: string } {
  const hashes = integrity.trim().split(/\s+/);
  for (const algorithm of ['sha512', 'sha384', 'sha256', 'sha1']) {
    const hash = hashes.find((one) => one.startsWith(`${algorithm}-`));
    if (hash !== undefined) return { algorithm, digest: hash.slice(algorithm.length + 1) };
  }
  throw new RegistryRefused('the tarball has no integrity');
}

export function createTarballs(directory: string): Tarballs {
  const inProgress = new Map<string, Promise<void>>();

  async function store(
    path: string,
    integrity: string,
    fetch: () => Promise<Readable>,
    take: Take,
  ): Promise<void> {
    const { algorithm, digest } = strongest(integrity);
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const temporary = `${path}.${randomBytes(6).toString('hex')}.part`;
    const hash = createHash(algorithm);
    const file = await open(temporary, 'wx', 0o600);
    try {
      const body = await fetch();
      let size = 0;
      for await (const chunk of body as AsyncIterable<Buffer>) {
        size += chunk.length;
        if (size > MAX_TARBALL_BYTES) {
          body.destroy();
          throw new RegistryRefused(`its tarball has more than ${MAX_TARBALL_BYTES / 2 ** 20} MB`);
        }
        take(chunk.length);
        hash.update(chunk);
        await file.writeFile(chunk);
      }
      if (Buffer.from(hash.digest('base64')).compare(Buffer.from(digest)) !== 0)
        throw new RegistryRefused('its tarball does not have the integrity that the registry gives');
      // Its content is not verified again.
      await file.sync();
      await file.close();
      await rename(temporary, path);
    } finally {
      await file.close().catch(() => {});
      await rm(temporary, { force: true });
    }
  }

  async function openStored(path: string): Promise<FileHandle | undefined> {
    return open(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined;
      throw error;
    });
  }

  return {
    async read(integrity, now, fetch, take) {
      const { algorithm, digest } = strongest(integrity);
      const path = join(directory, `${algorithm}-${Buffer.from(digest, 'base64').toString('hex')}.tgz`);
      // It may be removed at any time, but not before it was read.
      let file = await openStored(path);
      if (!file) {
        let storing = inProgress.get(path);
        if (!storing) {
          storing = store(path, integrity, fetch, take).finally(() => inProgress.delete(path));
          inProgress.set(path, storing);
        }
        await storing;
        file = await open(path);
      }
      // `collect` reads the time of the last use.
      await file.utimes(now / 1000, now / 1000);
      return file.createReadStream();
    },
  };
}
