import { randomBytes } from 'node:crypto';
import { readdirSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { smallDisk } from '@wellspring/testing/small-disk';
import { STRONGEST_JAILS } from './jail.fixture.ts';
import { openTestPackager } from './packager.fixture.ts';
import { openRegistry, type TestRegistry } from './registry.fixture.ts';

const MB = 1024 * 1024;

/** Publishes a package that takes twice this size: tarball and files. */
const publish = (registry: TestRegistry, name: string, megabytes: number) =>
  registry.publish(name, {
    '1.0.0': {
      files: [
        { path: 'package/index.js', content: '' },
        { path: 'package/data', content: randomBytes(megabytes * MB) },
      ],
    },
  });

test('on a small disk, an owner leaves as much room as its packages take, and no half of an installation', async () => {
  const disk = await smallDisk(64);
  if (!disk) return;
  try {
    const [jail] = STRONGEST_JAILS;
    await using registry = await openRegistry();
    await using packager = await openTestPackager(jail!, { npm_config_registry: registry.url }, disk.path);
    publish(registry, 'large', 25);
    publish(registry, 'first', 14);
    for (const name of ['second', 'third']) publish(registry, name, 9);
    const refused = (megabytes: number) =>
      `400 invalid_component: There is no room for these packages: those of their owner take ${megabytes} MB of the disk, and may take at most as much as stays free.`;
    expect(await packager.installFor('u_a', 'large')).toBe(refused(0));
    const { bavail, bsize } = statfsSync(disk.path);
    expect(bavail * bsize).toBeGreaterThan(30 * MB);
    expect(readdirSync(join(packager.dataDir, 'packages/sets'))).toEqual([]);
    expect(await packager.installFor('u_a', 'first')).toMatchObject({ format: 'esm' });
    expect(await packager.installFor('u_a', 'second')).toBe(refused(14));
    expect(await packager.installFor('u_b', 'third')).toMatchObject({ format: 'esm' });
  } finally {
    await disk.remove();
  }
}, 120_000);
