import { mkdirSync } from 'node:fs';
import { open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '@wellspring/core/clock';
import { newSecret } from '@wellspring/core/ids';
import type { Blob } from '../port.ts';

/** Other ids never reach the file system. */
const ID = /^[a-z2-7]{32}$/;

interface Head {
  /** Epoch ms; the first field, so that it can be read without the others. */
  until: number;
  contentType: string;
  filename: string | null;
}

/** One file per blob: a line of JSON, then the bytes. */
export function createEmbeddedBlob(directory: string, { clock }: { clock: Clock }): Blob {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const path = (id: string) => join(directory, id);
  /** Files being written. */
  const unfinished = new Set<string>();

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

  /** Expiry of a blob; 0: not a blob, or removed. @throws when the file is unreadable */
  async function untilOf(file: string): Promise<number> {
    try {
      const handle = await open(file);
      try {
        const { buffer, bytesRead } = await handle.read(Buffer.alloc(40), 0, 40, 0);
        return Number(/^\{"until":(\d+),/.exec(buffer.toString('latin1', 0, bytesRead))?.[1] ?? 0);
      } finally {
        await handle.close();
      }
    } catch (error) {
      const { code } = error as { code?: string };
      if (code === 'ENOENT' || code === 'EISDIR') return 0;
      throw error;
    }
  }

  return {
    async put(bytes, { ttlMs, contentType = 'application/octet-stream', filename, id: given }) {
      const id = given ?? newSecret();
      if (!ID.test(id)) throw new Error('Malformed blob id.');
      if (given !== undefined && (await read(given))) return given;
      const head: Head = { until: clock.now() + ttlMs, contentType, filename: filename ?? null };
      const name = `${id}.part`;
      unfinished.add(name);
      try {
        const file = await open(join(directory, name), 'wx', 0o600);
        try {
          await file.writeFile(`${JSON.stringify(head)}\n`);
          await file.writeFile(bytes);
          await file.sync();
        } finally {
          await file.close();
        }
        await rename(join(directory, name), path(id));
      } catch (error) {
        await rm(join(directory, name), { force: true });
        throw error;
      } finally {
        unfinished.delete(name);
      }
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
        until: found.head.until,
      };
    },
    async list() {
      const ids: string[] = [];
      for (const name of await readdir(directory)) {
        if (ID.test(name) && (await untilOf(path(name))) > clock.now()) ids.push(name);
      }
      return ids;
    },
    async remove(id) {
      if (ID.test(id)) await rm(path(id), { force: true });
    },
    async prune(now) {
      let removed = 0;
      for (const name of await readdir(directory)) {
        if (unfinished.has(name)) continue;
        // Unfinished files of a crash and foreign files are removed, too.
        const until = ID.test(name) ? await untilOf(path(name)) : 0;
        if (until > now) continue;
        // Counted only if it was not finished or removed in the meantime.
        const wasThere = await rm(join(directory, name), { recursive: true }).then(
          () => true,
          (error: { code?: string }) => {
            if (error.code === 'ENOENT') return false;
            throw error;
          },
        );
        if (wasThere) removed += 1;
      }
      return removed;
    },
    async ping() {
      await readdir(directory);
    },
    close: async () => {},
  };
}
