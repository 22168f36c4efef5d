import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { forEachTest } from '@wellspring/testing/lifetimes';
import { openPorts } from '@wellspring/testing/service-harness';
import { tempDir } from '@wellspring/testing/temp-dir';
import { readConfig } from './config.ts';
import { endRotation, openRootKey } from './root-key.ts';

const dir = forEachTest(tempDir);
const ports = forEachTest(() => openPorts());

const [OLD, NEW, OTHER] = ['old', 'new', 'other'].map((name) => `${name} root key of thirty-two characters`);

/** A start with these keys; null: with that of the data directory. */
const start = (keys: string | null) =>
  openRootKey(
    ports.store,
    readConfig({
      env: { WELLSPRING_DATA_DIR: dir.path, ...(keys !== null && { WELLSPRING_SECRET_KEY: keys }) },
    }),
  );

test('a root key that is not that of the data is refused by the name of its setting', async () => {
  const { seal } = await start(OLD!);
  await expect(start(OTHER!)).rejects.toMatchObject({
    name: 'WrongRootKey',
    message: expect.stringContaining('WELLSPRING_SECRET_KEY is not the root key of the data'),
  });
  expect((await start(OLD!)).seal.open(seal.seal('text', 'x'), 'x')).toBe('text');
});

test('processes that start at the same time on new data agree on one key', async () => {
  const started = await Promise.allSettled([start(OLD!), start(OTHER!), start(OLD!), start(OTHER!)]);
  expect(started.map(({ status }) => status).sort()).toEqual([
    'fulfilled',
    'fulfilled',
    'rejected',
    'rejected',
  ]);
});

test('a key is rotated in steps; until its end each of the two alone is refused, afterwards the old one', async () => {
  await start(OLD!);
  await expect(start(NEW!)).rejects.toThrow('WELLSPRING_SECRET_KEY is not the root key');
  await start(`${OLD},${NEW}`);
  await start(OLD!);
  const { keys } = await start(`${NEW},${OLD}`);
  // A rotation that is taken back, and begun again.
  await start(`${OLD},${NEW}`);
  for (const alone of [OLD, NEW]) {
    await expect(start(alone!)).rejects.toMatchObject({
      name: 'WrongRootKey',
      message: expect.stringContaining('WELLSPRING_SECRET_KEY lacks a root key'),
    });
  }
  await endRotation(ports.store, keys);
  await start(NEW!);
  await expect(start(OLD!)).rejects.toThrow('WELLSPRING_SECRET_KEY is not the root key');
});

test('a generated key that is missing is not replaced by another', async () => {
  await start(null);
  await start(null);
  const path = join(dir.path, 'secret.key');
  rmSync(path);
  await expect(start(null)).rejects.toThrow(`restore ${path}, or set WELLSPRING_SECRET_KEY`);
  expect(existsSync(path)).toBe(false);
});
