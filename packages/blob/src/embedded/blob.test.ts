import { mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { tempDir } from '@wellspring/testing/temp-dir';
import { blobConformance } from '../conformance.ts';
import { createEmbeddedBlob } from './blob.ts';

async function open() {
  const directory = await tempDir();
  const clock = createFakeClock();
  const path = join(directory.path, 'blobs');
  const blob = createEmbeddedBlob(path, { clock });
  return {
    blob,
    path,
    now: clock.now,
    advance: clock.advance,
    reopen: async () => createEmbeddedBlob(path, { clock }),
    async close() {
      await blob.close();
      await directory.remove();
    },
  };
}

blobConformance('embedded', open);

test('unfinished files of a crash are pruned and never returned', async () => {
  const { blob, path, now, close } = await open();
  const id = await blob.put(Buffer.from('whole'), { ttlMs: 1000 });
  const torn = 'b'.repeat(32);
  await writeFile(join(path, `${torn}.part`), '{"until":9999999999999,');
  await writeFile(join(path, torn), '');
  await mkdir(join(path, 'c'.repeat(32)));
  expect(await blob.get(`${torn}.part`)).toBeUndefined();
  expect(await blob.prune(now())).toBe(3);
  expect(await readdir(path)).toEqual([id]);
  await close();
});

test('files are readable only by the user of the process', async () => {
  const { blob, path, close } = await open();
  const id = await blob.put(Buffer.from('a'), { ttlMs: 1000 });
  expect((await stat(path)).mode & 0o077).toBe(0);
  expect((await stat(join(path, id))).mode & 0o077).toBe(0);
  await close();
});
