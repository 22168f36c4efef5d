import { mkdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from '@jest/globals';
import type { Bundle } from '@wellspring/contract/definition';
import { tempDir } from '@wellspring/testing/temp-dir';
import { createBundleDisk } from './bundle-disk.ts';
import { createBundleFiles } from './bundle-files.ts';

const BUNDLE: Bundle = { format: 'esm', code: 'export default {}', packages: {}, lockfile: null };
const read = async () => BUNDLE;
const diskAt = (path: string) => createBundleDisk(path, Date.now);

test('an owner that waits for its installations does not delay another one with the same bundle', async () => {
  await using directory = await tempDir();
  const waiting = Promise.withResolvers<void>();
  const blocked = Promise.withResolvers<undefined>();
  const asked: string[] = [];
  const provide = (_: unknown, ownerId: string) => {
    asked.push(ownerId);
    if (ownerId !== 'slow') return Promise.resolve(undefined);
    waiting.resolve();
    return blocked.promise;
  };
  const bundleFiles = createBundleFiles(diskAt(directory.path), { provide } as never, Date.now);
  const slow = [bundleFiles('b', read, 'slow'), bundleFiles('b', read, 'slow')];
  await waiting.promise;
  const other = await bundleFiles('b', read, 'other');
  expect(await bundleFiles('b', read, 'other')).toEqual(other);
  blocked.resolve(undefined);
  const [first, second] = await Promise.all(slow);
  expect(second).toEqual(first);
  expect(asked).toEqual(['slow', 'other']);
  // Each has a file of its own, which counts for its share.
  expect(first!.path).not.toBe(other.path);
});

test('code is read only while its files are missing, and one bundle of an owner at a time', async () => {
  await using directory = await tempDir();
  const bundleFiles = createBundleFiles(diskAt(directory.path), { provide: async () => undefined }, Date.now);
  let [reads, now, most] = [0, 0, 0];
  const count = async () => {
    reads += 1;
    now += 1;
    most = Math.max(most, now);
    await new Promise((resolve) => setImmediate(resolve));
    now -= 1;
    return BUNDLE;
  };
  const ids = ['a', 'b', 'c', 'd'];
  for (let twice = 0; twice < 2; twice += 1)
    await Promise.all(ids.map((id) => bundleFiles(id, count, 'one')));
  expect({ reads, most }).toEqual({ reads: 4, most: 1 });
});

test('a bundle that could not be written is written by the next call', async () => {
  await using directory = await tempDir();
  let failures = 1;
  const provide = async () => {
    if (failures-- > 0) throw new Error('no registry');
  };
  const bundleFiles = createBundleFiles(diskAt(directory.path), { provide } as never, Date.now);
  await expect(bundleFiles('b', read, 'one')).rejects.toThrow('no registry');
  expect(await bundleFiles('b', read, 'one')).toMatchObject({ nodeModules: undefined });
});

test('packages that were removed after their last mark are provided again', async () => {
  await using directory = await tempDir();
  const nodeModules = join(directory.path, 'sets/a/node_modules');
  let provided = 0;
  const provide = async () => {
    provided += 1;
    mkdirSync(nodeModules, { recursive: true });
    return nodeModules;
  };
  const bundleFiles = createBundleFiles(diskAt(directory.path), { provide }, Date.now);
  for (let twice = 0; twice < 2; twice += 1) await bundleFiles('b', read, 'one');
  expect(provided).toBe(1);
  rmSync(dirname(nodeModules), { recursive: true });
  expect(await bundleFiles('b', read, 'one')).toMatchObject({ nodeModules });
  expect(provided).toBe(2);
});
