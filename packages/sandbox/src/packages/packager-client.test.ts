import { chmodSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { tempDir } from '@wellspring/testing/temp-dir';
import { writeJailPrograms } from './jail/programs.ts';
import { createPackagerClient, type PackagerClientOptions } from './packager-client.ts';
import { openRegistry } from './registry.fixture.ts';

async function openClient(registry: string, options: PackagerClientOptions) {
  const directory = await tempDir();
  chmodSync(directory.path, 0o711);
  const work = join(directory.path, 'work');
  mkdirSync(work);
  chmodSync(work, 0o711);
  const client = createPackagerClient(
    {
      bwrap: undefined,
      programs: await writeJailPrograms(directory.path),
      work,
      packages: join(directory.path, 'packages'),
      environment: {
        npm_config_registry: registry,
        npm_config_userconfig: '/dev/null',
        npm_config_globalconfig: '/dev/null',
        npm_config_fetch_retries: '0',
      },
      user: process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : undefined,
    },
    options,
  );
  return {
    client,
    work,
    settle: (name: string) => client.settle({ [name]: { name, version: '1.0.0' } }),
    async [Symbol.asyncDispose]() {
      await client.close();
      await directory.remove();
    },
  };
}

test('a packument that fills the memory of a process fails its own installation, not the platform or others', async () => {
  await using registry = await openRegistry();
  await using packager = await openClient(registry.url, { heapMb: 160 });
  registry.publish('small', { '1.0.0': {} });
  const before = await packager.settle('small');
  expect(before).toContain('small@1.0.0');
  registry.answer('/large', (_, response) => {
    response.end(`{"name":"large","versions":{},"filler":[${'{},'.repeat(8_000_000)}{}]}`);
  });
  const large = packager.settle('large');
  const beside = packager.settle('small');
  await expect(large).rejects.toThrow(/^a process of the packager ended with /);
  expect(await beside).toBe(before);
  expect(await packager.settle('small')).toBe(before);
});

test('an installation that does not end is ended at the deadline, and leaves no files behind', async () => {
  await using registry = await openRegistry();
  await using packager = await openClient(registry.url, { deadlineMs: 5_000 });
  registry.answer('/silent', () => {});
  await expect(packager.settle('silent')).rejects.toMatchObject({
    status: 400,
    message: 'The packages took too long to be installed.',
  });
  await packager.client.close();
  expect(readdirSync(packager.work)).toEqual([]);
});
