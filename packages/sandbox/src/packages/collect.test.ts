import { existsSync, linkSync, mkdirSync, rmSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from '@jest/globals';
import { tempDir } from '@wellspring/testing/temp-dir';
import { createBundleDisk } from './bundle-disk.ts';
import { createBundleFiles } from './bundle-files.ts';
import { collect } from './collect.ts';

const HOUR_MS = 3_600_000;
const NOW = 1_800_000_000_000;
const MB = 1024 * 1024;
const limits = { unusedMs: 100 * HOUR_MS, protectedMs: 6 * HOUR_MS, maxBytes: 2.5 * MB };

async function openData() {
  const directory = await tempDir();
  const [bundles, packages] = [join(directory.path, 'bundles'), join(directory.path, 'packages')];
  const paths = new Map<string, string>();
  return {
    ...directory,
    bundles,
    packages,
    /** Writes 1 MB that was last used some hours ago. */
    put(path: string, hoursAgo: number) {
      const [full, seconds] = [join(directory.path, path), (NOW - hoursAgo * HOUR_MS) / 1000];
      const isSet = path.includes('/sets/');
      const file = isSet ? join(full, 'node_modules', 'ms', 'index.js') : full;
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, Buffer.alloc(MB, 'x'));
      utimesSync(full, seconds, seconds);
      paths.set(path, full);
    },
    left: () => [...paths].filter(([, full]) => existsSync(full)).map(([path]) => path),
    collect: () => collect({ bundles, packages, now: NOW, limits }),
  };
}

test('items that were not used for a long time are removed, others stay', async () => {
  await using data = await openData();
  data.put('bundles/u_a/old.mjs', 101);
  data.put('bundles/u_b/new.mjs', 99);
  data.put('packages/sets/old', 101);
  data.put('packages/sets/new', 1);
  data.put('packages/tarballs/old.tgz', 101);
  data.put('packages/tarballs/new.tgz', 99);
  expect(await data.collect()).toBe(3);
  expect(data.left()).toEqual(['bundles/u_b/new.mjs', 'packages/sets/new', 'packages/tarballs/new.tgz']);
});

test('beyond the size limit, the least recently used items are removed, but no recently used ones', async () => {
  await using data = await openData();
  for (const hours of [20, 10, 30, 9]) data.put(`packages/sets/used-${hours}`, hours);
  for (const hours of [1, 2, 3, 4]) data.put(`packages/tarballs/used-${hours}.tgz`, hours);
  await data.collect();
  expect(data.left()).toEqual([
    'packages/sets/used-10',
    'packages/sets/used-9',
    ...[1, 2, 3, 4].map((hours) => `packages/tarballs/used-${hours}.tgz`),
  ]);
});

test('sizes are those on disk', async () => {
  await using data = await openData();
  for (const hours of [7, 8, 9, 10]) data.put(`packages/sets/used-${hours}`, hours);
  const indexOf = (hours: number) => join(data.path, `packages/sets/used-${hours}/node_modules/ms/index.js`);
  // The same file twice, one without content, and 300 small ones.
  rmSync(indexOf(8));
  linkSync(indexOf(7), indexOf(8));
  rmSync(indexOf(9));
  writeFileSync(indexOf(9), '');
  truncateSync(indexOf(9), 100 * MB);
  rmSync(indexOf(10));
  for (let n = 0; n < 300; n += 1) writeFileSync(`${indexOf(10)}.${n}`, 'x');
  await data.collect();
  expect(data.left()).toHaveLength(4);
  for (let n = 300; n < 450; n += 1) writeFileSync(`${indexOf(10)}.${n}`, 'x');
  await data.collect();
  expect(data.left()).toEqual(['used-7', 'used-8', 'used-9'].map((name) => `packages/sets/${name}`));
});

test('leftovers of interrupted installations are removed', async () => {
  await using data = await openData();
  data.put('packages/sets/a.part', 7);
  data.put('packages/sets/b.part', 1);
  await data.collect();
  expect(data.left()).toEqual(['packages/sets/b.part']);
});

test('a bundle that was collected while cached is rewritten', async () => {
  await using data = await openData();
  let now = NOW;
  const packages = { provide: async () => undefined };
  const bundleFiles = createBundleFiles(
    createBundleDisk(data.bundles, () => now),
    packages,
    () => now,
  );
  const bundle = { format: 'esm', code: 'export default {}', packages: {}, lockfile: null } as const;
  const { path } = await bundleFiles('id', async () => bundle, 'u_test');
  now += 200 * HOUR_MS;
  await collect({ bundles: data.bundles, packages: data.packages, now, limits });
  expect(existsSync(path)).toBe(false);
  expect((await bundleFiles('id', async () => bundle, 'u_test')).path).toBe(path);
  expect(existsSync(path)).toBe(true);

  // Each use protects the bundle for some time.
  now += 90 * HOUR_MS;
  await bundleFiles('id', async () => bundle, 'u_test');
  now += 90 * HOUR_MS;
  await collect({ bundles: data.bundles, packages: data.packages, now, limits });
  expect(existsSync(path)).toBe(true);
});
