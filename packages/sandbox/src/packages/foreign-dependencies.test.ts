import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import { JAILS } from './jail.fixture.ts';
import { openTestPackager, type TestPackager } from './packager.fixture.ts';
import { type Canary, openCanary, openRegistry, type TestRegistry } from './registry.fixture.ts';

describe.each(JAILS)('a dependency that is not a package of the registry, in jail %s,', (name) => {
  let registry: TestRegistry;
  let canary: Canary;
  let secrets: TempDir;
  let packager: TestPackager;
  beforeAll(async () => {
    registry = await openRegistry();
    canary = await openCanary();
    secrets = await tempDir();
    writeFileSync(join(secrets.path, 'secret.key'), 'the key of the platform');
    writeFileSync(join(secrets.path, 'package.json'), '{"name":"host","version":"1.0.0"}');
    packager = await openTestPackager(name, { npm_config_registry: registry.url });
  });
  afterAll(async () => {
    for (const one of [packager, secrets, canary, registry]) await one[Symbol.asyncDispose]();
  });

  const fields = ['dependencies', 'optionalDependencies', 'peerDependencies'] as const;
  const specifiers = (): string[] => [
    'file:../../..',
    `file:${secrets.path}`,
    `link:${secrets.path}`,
    'workspace:*',
    `portal:${secrets.path}`,
    secrets.path,
    '../../..',
    '~/x',
    `http://${canary.host}/x.tgz`,
    `git+http://${canary.host}/x.git`,
    `git+ssh://git@${canary.host}/x.git`,
    `git://${canary.host}/x.git`,
    'user/repository',
    'github:user/repository',
    'npm:other@file:../..',
    'catalog:',
    'jsr:@x/y@1',
    'x.tgz',
  ];

  test('is refused with a 400 that names both packages, and nothing is fetched', async () => {
    let count = 0;
    for (const specifier of specifiers()) {
      for (const field of fields) {
        const evil = `evil-${count++}`;
        registry.publish(evil, { '1.2.3': { manifest: { [field]: { bar: specifier } } } });
        expect(await packager.install(evil)).toBe(
          `400 invalid_component: The package ${evil}@1.2.3 depends on bar@${specifier}; only packages of the registry can be used.`,
        );
      }
    }
    expect(registry.requests.filter(({ path }) => path.endsWith('.tgz'))).toEqual([]);
    expect(packager.installed()).toEqual({});
    // Positive control: what must not be reached answers, and the secret is there.
    expect(canary.requests).toEqual([]);
    expect(await (await fetch(`http://${canary.host}/control`)).text()).toBe('canary');
    canary.requests.length = 0;
    expect(readFileSync(join(secrets.path, 'secret.key'), 'utf8')).toBe('the key of the platform');
  }, 120_000);

  test('is refused below other packages, and behind an alias', async () => {
    const foreign = `file:${secrets.path}`;
    registry.publish('deep-evil', { '1.0.0': { manifest: { dependencies: { bar: foreign } } } });
    registry.publish('middle', { '1.0.0': { manifest: { dependencies: { x: 'npm:deep-evil@^1' } } } });
    registry.publish('top', { '1.0.0': { manifest: { dependencies: { middle: '^1.0.0' } } } });
    expect(await packager.install('top')).toBe(
      `400 invalid_component: The package deep-evil@1.0.0 depends on bar@${foreign}; only packages of the registry can be used.`,
    );
  });

  test('is no fault of versions that do not have it', async () => {
    registry.publish('mixed', {
      '1.0.0': {},
      '2.0.0': { manifest: { dependencies: { bar: 'file:..' } } },
    });
    expect(await packager.install('mixed@1')).toMatchObject({
      lockfile: expect.stringContaining('mixed@1.0.0'),
    });
    expect(await packager.install('mixed')).toMatch(
      /^400 invalid_component: The package mixed@2\.0\.0 depends on bar/,
    );
  });

  test('has no effect when only the tarball names it', async () => {
    const foreign = { bar: `file:${secrets.path}`, baz: `http://${canary.host}/x.tgz` };
    registry.publish('two-faced', {
      '1.0.0': {
        tarballManifest: {
          name: 'two-faced',
          version: '1.0.0',
          dependencies: foreign,
          optionalDependencies: foreign,
          bundledDependencies: ['inner'],
        },
        files: [
          { path: 'package/index.js', content: '' },
          {
            path: 'package/node_modules/inner/package.json',
            content: JSON.stringify({ name: 'inner', version: '1.0.0', dependencies: foreign }),
          },
        ],
      },
    });
    expect(await packager.install('two-faced')).toMatchObject({ format: 'esm' });
    const installed = packager.installed();
    expect(Object.keys(installed)).toContain('two-faced/index.js');
    expect(JSON.stringify(installed)).not.toContain('the key of the platform');
    expect(Object.keys(installed).some((path) => path.endsWith('secret.key'))).toBe(false);
    expect(canary.requests).toEqual([]);
  });

  test('is refused in the lockfile of a stored bundle', async () => {
    registry.publish('plain', { '1.0.0': {} });
    const bundle = await packager.install('plain');
    if (typeof bundle === 'string') throw new Error(bundle);
    const lockfile = bundle.lockfile!;
    mkdirSync(join(secrets.path, 'plain'), { recursive: true });
    const integrity = /integrity: (\S+)\}/.exec(lockfile)![1]!;
    const forged = [
      lockfile.replace(`{integrity: ${integrity}}`, `{directory: ${secrets.path}, type: directory}`),
      lockfile.replace(
        `{integrity: ${integrity}}`,
        `{integrity: ${integrity}, tarball: http://${canary.host}/x.tgz}`,
      ),
      lockfile.replace(`{integrity: ${integrity}}`, `{tarball: http://${canary.host}/x.tgz}`),
      lockfile.replace(
        `{integrity: ${integrity}}`,
        `{commit: abc, repo: http://${canary.host}/x.git, type: git}`,
      ),
      lockfile.replaceAll('version: 1.0.0', `version: link:${secrets.path}`),
      lockfile.replaceAll('plain@1.0.0', `plain@file:${secrets.path}`),
      lockfile.replace('snapshots:', `snapshots:\n  'x@file:${secrets.path}': {}\n`),
      `${lockfile}\noverrides:\n  plain: file:${secrets.path}\n`,
      `${lockfile}\n---\n${lockfile}`,
      lockfile.replace('importers:\n', `importers:\n  ../..: {}\n`),
    ];
    for (const [n, text] of forged.entries()) {
      expect(text).not.toBe(lockfile);
      const provided = packager.materialise(`forged-${n}`, { ...bundle, lockfile: text }, 'u_test');
      await expect(provided).rejects.toMatchObject({ status: 400, code: 'invalid_component' });
    }
    expect(canary.requests).toEqual([]);
    expect(JSON.stringify(packager.installed())).not.toContain('the key of the platform');
  });
});
