import { expect, test } from '@jest/globals';
import type { Bundle } from '@wellspring/contract/definition';
import { tempDir } from '@wellspring/testing/temp-dir';
import { createBundleFiles } from './bundle-files.ts';

const BUNDLE: Bundle = { format: 'esm', code: 'export default {}', packages: {}, lockfile: null };

test('an owner that waits for its installations does not delay another one with the same bundle', async () => {
  await using directory = await tempDir();
  const blocked = Promise.withResolvers<undefined>();
  const asked: string[] = [];
  const provide = (_: unknown, ownerId: string) => {
    asked.push(ownerId);
    return ownerId === 'slow' ? blocked.promise : Promise.resolve(undefined);
  };
  const bundleFiles = createBundleFiles(directory.path, { provide } as never, Date.now);
  const slow = [bundleFiles('b', BUNDLE, 'slow'), bundleFiles('b', BUNDLE, 'slow')];
  const files = await bundleFiles('b', BUNDLE, 'other');
  expect(files).toMatchObject({ name: 'component.mjs' });
  // From now on the files are there for all.
  expect(await bundleFiles('b', BUNDLE, 'third')).toEqual(files);
  blocked.resolve(undefined);
  expect(await Promise.all(slow)).toEqual([files, files]);
  expect(asked.sort()).toEqual(['other', 'slow']);
});

test('a bundle that could not be written is written by the next call', async () => {
  await using directory = await tempDir();
  let failures = 1;
  const provide = async () => {
    if (failures-- > 0) throw new Error('no registry');
  };
  const bundleFiles = createBundleFiles(directory.path, { provide } as never, Date.now);
  await expect(bundleFiles('b', BUNDLE, 'one')).rejects.toThrow('no registry');
  expect(await bundleFiles('b', BUNDLE, 'one')).toMatchObject({ nodeModules: undefined });
});
