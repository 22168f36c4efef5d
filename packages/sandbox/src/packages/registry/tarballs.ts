import { createHash, randomBytes } from 'node:crypto';
import { createReadStream, existsSync, type ReadStream } from 'node:fs';
import { mkdir, open, rename, rm, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { RegistryRefused } from './upstream.ts';

/** Tarballs on disk, by integrity. A tarball is stored only if it is complete and its hash matches. */
export interface Tarballs {
  /** @throws RegistryRefused: the hash differs, or the tarball exceeds MAX_TARBALL_BYTES; errors of `fetch` */
  read(integrity: string, now: number, fetch: () => Promise<Readable>): Promise<ReadStream>;
}

export const MAX_TARBALL_BYTES = 128 * 1024 * 1024;

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

  async function store(path: string, integrity: string, fetch: () => Promise<Readable>): Promise<void> {
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
        hash.update(chunk);
        await file.writeFile(chunk);
      }
      if (Buffer.from(hash.digest('base64')).compare(Buffer.from(digest)) !== 0)
        throw new RegistryRefused('its tarball does not have the integrity that the registry gives');
      await file.close();
      await rename(temporary, path);
    } finally {
      await file.close().catch(() => {});
      await rm(temporary, { force: true });
    }
  }

  return {
    async read(integrity, now, fetch) {
      const { algorithm, digest } = strongest(integrity);
      const path = join(directory, `${algorithm}-${Buffer.from(digest, 'base64').toString('hex')}.tgz`);
      if (!existsSync(path)) {
        let storing = inProgress.get(path);
        if (!storing) {
          storing = store(path, integrity, fetch).finally(() => inProgress.delete(path));
          inProgress.set(path, storing);
        }
        await storing;
      }
      // `collect` reads the time of the last use.
      await utimes(path, now / 1000, now / 1000);
      return createReadStream(path);
    },
  };
}
