import { mkdirSync } from 'node:fs';
import { open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '@wellspring/core/clock';
import { newSecret } from '@wellspring/core/ids';
import type { Blob } from './port.ts';

/** Ids are ours: anything else never reaches the file system. */
const ID = /^[a-z2-7]{32}$/;

interface Head {
  until: number;
  contentType: string;
  filename: string | null;
}

/** Files in a directory: one line of JSON about the blob, then its bytes. */
export function createEmbeddedBlob(directory: string, { clock }: { clock: Clock }): Blob {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const path = (id: string) => join(directory, id);

  async function read(id: string): Promise<{ head: Head; bytes: Buffer } | undefined> {
    if (!ID.test(id)) return undefined;
    const content = await readFile(path(id)).catch((error: { code?: string }) => {
      if (error.code === 'ENOENT') return undefined;
      throw error;
    });
    if (!content) return undefined;
    const end = content.indexOf(10);
    return { head: JSON.parse(content.toString('utf8', 0, end)) as Head, bytes: content.subarray(end + 1) };
  }

  return {
    async put(bytes, { ttlMs, contentType = 'application/octet-stream', filename }) {
      const id = newSecret();
      const head: Head = { until: clock.now() + ttlMs, contentType, filename: filename ?? null };
      const temporary = `${path(id)}.part`;
      const file = await open(temporary, 'w', 0o600);
      try {
        await file.writeFile(Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), bytes]));
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(temporary, path(id));
      const folder = await open(directory);
      await folder.sync().finally(() => folder.close());
      return id;
    },
    async get(id) {
      const found = await read(id);
      if (!found || found.head.until <= clock.now()) return undefined;
      return {
        bytes: found.bytes,
        contentType: found.head.contentType,
        filename: found.head.filename ?? undefined,
      };
    },
    async remove(id) {
      if (ID.test(id)) await rm(path(id), { force: true });
    },
    async prune(now) {
      let removed = 0;
      for (const name of await readdir(directory)) {
        // What a crash left half written belongs to nobody.
        const found = name.endsWith('.part') ? undefined : await read(name).catch(() => undefined);
        if (found && found.head.until > now) continue;
        await rm(join(directory, name), { force: true });
        removed += 1;
      }
      return removed;
    },
    async ping() {
      await readdir(directory);
    },
    close: async () => {},
  };
}
