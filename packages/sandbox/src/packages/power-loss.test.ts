import { execFileSync } from 'node:child_process';
import {
  closeSync,
  copyFileSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { tempDir } from '@wellspring/testing/temp-dir';
import { STRONGEST_JAILS } from './jail.fixture.ts';
import { openTestPackager } from './packager.fixture.ts';
import { openRegistry } from './registry.fixture.ts';

const SIZE = 128 * 1024 * 1024;

/**
 * Mounts an image of a disk.
 * @param isNew makes it
 * @returns the mount point; undefined if this user may not mount, with the reason in the log
 */
function mount(image: string, isNew: boolean): string | undefined {
  const path = `${image}.mounted`;
  mkdirSync(path);
  try {
    if (isNew) {
      writeFileSync(image, '');
      truncateSync(image, SIZE);
      execFileSync('mkfs.ext4', ['-q', image], { stdio: 'pipe' });
    }
    execFileSync('mount', ['-o', 'loop', image, path], { stdio: 'pipe' });
    return path;
  } catch (error) {
    console.warn(`Skipped: a power loss needs the right to mount. ${(error as Error).message}`);
    return undefined;
  }
}

const unmount = (path: string | undefined) => path && execFileSync('umount', ['-l', path]);

test('a set of packages has its name after a power loss only with all of its content', async () => {
  await using directory = await tempDir();
  const [image, copy] = [join(directory.path, 'disk'), join(directory.path, 'copy')];
  const disk = mount(image, true);
  if (disk === undefined) return;
  let lost: string | undefined;
  try {
    await using registry = await openRegistry();
    await using packager = await openTestPackager(
      STRONGEST_JAILS[0]!,
      { npm_config_registry: registry.url },
      disk,
    );
    registry.publish('small', { '1.0.0': { files: [{ path: 'package/index.js', content: 'content' }] } });
    expect(await packager.install('small')).toMatchObject({ format: 'esm' });
    // Writes the names of all files, but the content of this one only.
    const other = openSync(join(disk, 'other'), 'w');
    fsyncSync(other);
    closeSync(other);
    copyFileSync(image, copy);
    lost = mount(copy, false);
    const sets = join(lost!, 'data/packages/sets');
    const files = readdirSync(sets, { recursive: true, withFileTypes: true }).filter((entry) =>
      entry.isFile(),
    );
    expect(files.map(({ name }) => name).sort()).toEqual(['index.js', 'owner.json', 'package.json']);
    for (const { parentPath, name } of files)
      expect(readFileSync(join(parentPath, name), 'utf8')).not.toBe('');
  } finally {
    unmount(lost);
    unmount(disk);
  }
});
