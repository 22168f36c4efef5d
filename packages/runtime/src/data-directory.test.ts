import { chmod, chown, mkdir, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { silentLog } from '@wellspring/core/log';
import { forEachTest } from '@wellspring/testing/lifetimes';
import { tempDir } from '@wellspring/testing/temp-dir';
import { prepareDataDirectory } from './data-directory.ts';

const isRoot = process.getuid?.() === 0;
const home = forEachTest(tempDir);
let data: string;
const warnings: string[] = [];
const log = { ...silentLog, warn: (_fields: object, event: string) => void warnings.push(event) };

beforeEach(() => {
  data = join(home.path, 'a', 'data');
  warnings.length = 0;
});

const modeOf = async (...path: string[]) => ((await stat(join(data, ...path))).mode & 0o777).toString(8);

test('a data directory that is missing is made for this user only', async () => {
  prepareDataDirectory(data, log, true);
  expect(await modeOf()).toBe('700');
});

test('a directory and files that others may read become private', async () => {
  await mkdir(join(data, 'blobs'), { recursive: true });
  await chmod(data, 0o755);
  await chmod(join(data, 'blobs'), 0o755);
  for (const name of ['wellspring.db', 'wellspring.db-wal', 'secret.key']) {
    await writeFile(join(data, name), '');
    await chmod(join(data, name), 0o644);
  }
  const outside = join(home.path, 'outside');
  await writeFile(outside, '');
  await chmod(outside, 0o644);
  await symlink(outside, join(data, 'link'));
  prepareDataDirectory(data, log, true);
  expect(await modeOf()).toBe('700');
  expect(await modeOf('blobs')).toBe('700');
  for (const name of ['wellspring.db', 'wellspring.db-wal', 'secret.key']) {
    expect([name, await modeOf(name)]).toEqual([name, '600']);
  }
  expect(await modeOf('link')).toBe('644');
  expect(warnings).toEqual([]);
});

test('a data directory that cannot be used is named with its setting and the reason', async () => {
  const file = join(home.path, 'file');
  await writeFile(file, '');
  for (const path of [file, join(file, 'data'), '/proc/data', '/proc/a/data']) {
    expect(() => prepareDataDirectory(path, log, true)).toThrow(
      new RegExp(`^The data directory ${path} cannot be used: .*mkdir.* or set WELLSPRING_DATA_DIR `),
    );
  }
});

(isRoot ? describe : describe.skip)('a directory of another user', () => {
  beforeEach(async () => {
    await mkdir(data, { recursive: true });
    await chown(data, 12_345, 12_345);
  });

  test('is used as it is, and reported', async () => {
    await chmod(data, 0o775);
    prepareDataDirectory(data, log, true);
    expect(await modeOf()).toBe('775');
    expect(warnings).toEqual(['data_directory.foreign_owner']);
  });

  test('that holds only caches is used even when everybody may write to it', async () => {
    await chmod(data, 0o777);
    prepareDataDirectory(data, log, false);
    expect(warnings).toEqual(['data_directory.foreign_owner']);
  });

  test('is refused when everybody may write to it', async () => {
    await chmod(data, 0o777);
    expect(() => prepareDataDirectory(data, log, true)).toThrow(
      /belongs to user 12345 and everybody may write to it: run chown 0 /,
    );
  });
});
