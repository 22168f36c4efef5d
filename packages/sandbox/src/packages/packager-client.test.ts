import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import { eventually } from '@wellspring/testing/eventually';
import { tempDir } from '@wellspring/testing/temp-dir';
import { JAILS } from './jail.fixture.ts';
import { createPackager } from './packager.ts';
import { openClient } from './packager-client.fixture.ts';
import { createPackagerClient } from './packager-client.ts';
import { openRegistry } from './registry.fixture.ts';

describe.each(JAILS)('the processes of a packager with jail %s', (jail) => {
  test('a packument that fills the memory of a process fails only its own installation', async () => {
    await using registry = await openRegistry();
    await using packager = await openClient(jail, registry.url, { heapMb: 160 });
    registry.publish('small', { '1.0.0': {} });
    const before = await packager.settle('small');
    expect(before).toContain('small@1.0.0');
    registry.answer('/large', (_, response) => {
      response.end(`{"name":"large","versions":{},"filler":[${'{},'.repeat(8_000_000)}{}]}`);
    });
    const large = packager.settle('large');
    const beside = packager.settle('small');
    await expect(large).rejects.toMatchObject({
      status: 400,
      message: 'The packages need too much memory to be installed.',
    });
    expect(await beside).toBe(before);
    expect(await packager.settle('small')).toBe(before);
  });

  test('a process whose installation has failed is not used again', async () => {
    await using registry = await openRegistry();
    await using packager = await openClient(jail, registry.url);
    registry.publish('small', { '1.0.0': {} });
    await packager.settle('small');
    expect(readdirSync(packager.work)).toHaveLength(1);
    await expect(packager.settle('missing')).rejects.toMatchObject({ status: 400 });
    await eventually(() => readdirSync(packager.work).length === 0);
    expect(await packager.settle('small')).toContain('small@1.0.0');
  });

  test('packages that are missing fail as unavailable without the registry, and with the code of an error of the disk', async () => {
    await using registry = await openRegistry();
    await using packager = await openClient(jail, registry.url);
    registry.publish('small', { '1.0.0': {} });
    const bundle = {
      packages: { small: { name: 'small', version: '1.0.0' } },
      lockfile: await packager.settle('small'),
    };
    const provide = () => createPackager(packager.client).provide(bundle, 'u_test');
    const directory = join(dirname(packager.work), 'packages');
    rmSync(directory, { recursive: true });
    for (const path of ['/small', '/small/-/small-1.0.0.tgz'])
      registry.answer(path, (_, response) => {
        response.writeHead(503).end();
      });
    await expect(provide()).rejects.toBeInstanceOf(Unavailable);
    rmSync(directory, { recursive: true });
    writeFileSync(directory, 'not a directory');
    await expect(provide()).rejects.toMatchObject({ code: 'ENOTDIR' });
  });

  test('an endless installation is killed at the deadline and leaves no files', async () => {
    await using registry = await openRegistry();
    await using packager = await openClient(jail, registry.url, { deadlineMs: 5_000 });
    registry.answer('/silent', () => {});
    await expect(packager.settle('silent')).rejects.toMatchObject({
      status: 400,
      message: 'The packages took too long to be installed.',
    });
    await packager.client.close();
    expect(readdirSync(packager.work)).toEqual([]);
  });
});

/** A packager whose compiler never answers. */
const SILENT_COMPILER = `process.on('message', ({ id, method }) => {
  if (method !== undefined && method !== 'compile') process.send({ id, value: method });
});`;

test('a process that was killed at a deadline gets no further calls', async () => {
  await using directory = await tempDir();
  const work = join(directory.path, 'work');
  mkdirSync(work);
  const packager = join(directory.path, 'packager.mjs');
  writeFileSync(packager, SILENT_COMPILER);
  const programs = { compileNative: '', compileWasm: '', install: '', packager };
  const jail = () => ({ choice: { name: 'none' } as const, end: async () => {} });
  const data = { programs, work, packages: directory.path, environment: {}, user: undefined };
  const client = createPackagerClient(jail, data, { deadlineMs: 5_000 });
  try {
    await expect(client.compile({ code: { code: '' }, ownerId: 'u_test' })).rejects.toMatchObject({
      message: 'The packages took too long to be installed.',
    });
    expect(await client.find({ packages: {}, lockfile: null })).toBe('find');
  } finally {
    await client.close();
  }
});
