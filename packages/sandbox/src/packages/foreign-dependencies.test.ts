import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { SECRET, useHostileRegistry } from './hostile-registry.fixture.ts';
import { JAILS } from './jail.fixture.ts';

describe.each(JAILS)('a dependency that is not a package of the registry, in jail %s,', (name) => {
  const t = useHostileRegistry(name);

  const fields = ['dependencies', 'optionalDependencies', 'peerDependencies'] as const;
  const specifiers = (): string[] => [
    'file:../../..',
    `file:${t.secrets.path}`,
    `link:${t.secrets.path}`,
    'workspace:*',
    `portal:${t.secrets.path}`,
    t.secrets.path,
    '../../..',
    '~/x',
    `http://${t.canary.host}/x.tgz`,
    `git+http://${t.canary.host}/x.git`,
    `git+ssh://git@${t.canary.host}/x.git`,
    `git://${t.canary.host}/x.git`,
    'user/repository',
    'github:user/repository',
    'npm:other@file:../..',
    'catalog:',
    'jsr:@x/y@1',
    'x.tgz',
  ];

  test('is refused with a 400 that names both packages, and nothing is fetched', async () => {
    let count = 0;
    for (const [n, specifier] of specifiers().entries()) {
      // The fields are read outside of the jail: all of them in one jail, in the others in turn.
      for (const field of name === JAILS[0] ? fields : [fields[n % fields.length]!]) {
        const evil = `evil-${count++}`;
        t.registry.publish(evil, { '1.2.3': { manifest: { [field]: { bar: specifier } } } });
        expect(await t.packager.install(evil)).toBe(
          `400 invalid_component: The package ${evil}@1.2.3 depends on bar@${specifier}; only packages of the registry can be used.`,
        );
      }
    }
    expect(t.registry.requests.filter(({ path }) => path.endsWith('.tgz'))).toEqual([]);
    expect(t.packager.installed()).toEqual({});
    // Positive control: the server is reachable, and the secret exists.
    expect(t.canary.requests).toEqual([]);
    expect(await (await fetch(`http://${t.canary.host}/control`)).text()).toBe('canary');
    t.canary.requests.length = 0;
    expect(readFileSync(join(t.secrets.path, 'secret.key'), 'utf8')).toBe(SECRET);
    // Timeout for more than fifty installations.
  }, 180_000);

  test('is refused below other packages, and behind an alias', async () => {
    const foreign = `file:${t.secrets.path}`;
    t.registry.publish('deep-evil', { '1.0.0': { manifest: { dependencies: { bar: foreign } } } });
    t.registry.publish('middle', { '1.0.0': { manifest: { dependencies: { x: 'npm:deep-evil@^1' } } } });
    t.registry.publish('top', { '1.0.0': { manifest: { dependencies: { middle: '^1.0.0' } } } });
    expect(await t.packager.install('top')).toBe(
      `400 invalid_component: The package deep-evil@1.0.0 depends on bar@${foreign}; only packages of the registry can be used.`,
    );
  });

  test('does not affect versions without it', async () => {
    t.registry.publish('mixed', {
      '1.0.0': {},
      '2.0.0': { manifest: { dependencies: { bar: 'file:..' } } },
    });
    expect(await t.packager.install('mixed@1')).toMatchObject({
      lockfile: expect.stringContaining('mixed@1.0.0'),
    });
    expect(await t.packager.install('mixed')).toMatch(
      /^400 invalid_component: The package mixed@2\.0\.0 depends on bar/,
    );
  });

  test('has no effect when only the tarball names it', async () => {
    const foreign = { bar: `file:${t.secrets.path}`, baz: `http://${t.canary.host}/x.tgz` };
    t.registry.publish('two-faced', {
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
    expect(await t.packager.install('two-faced')).toMatchObject({ format: 'esm' });
    const installed = t.packager.installed();
    expect(Object.keys(installed)).toContain('two-faced/index.js');
    expect(JSON.stringify(installed)).not.toContain(SECRET);
    expect(Object.keys(installed).some((path) => path.endsWith('secret.key'))).toBe(false);
    expect(t.canary.requests).toEqual([]);
  });

  test('is refused in the lockfile of a stored bundle', async () => {
    t.registry.publish('plain', { '1.0.0': {} });
    const bundle = await t.packager.install('plain');
    if (typeof bundle === 'string') throw new Error(bundle);
    const lockfile = bundle.lockfile!;
    mkdirSync(join(t.secrets.path, 'plain'), { recursive: true });
    const integrity = /integrity: (\S+)\}/.exec(lockfile)![1]!;
    const forged = [
      lockfile.replace(`{integrity: ${integrity}}`, `{directory: ${t.secrets.path}, type: directory}`),
      lockfile.replace(
        `{integrity: ${integrity}}`,
        `{integrity: ${integrity}, tarball: http://${t.canary.host}/x.tgz}`,
      ),
      lockfile.replace(`{integrity: ${integrity}}`, `{tarball: http://${t.canary.host}/x.tgz}`),
      lockfile.replace(
        `{integrity: ${integrity}}`,
        `{commit: abc, repo: http://${t.canary.host}/x.git, type: git}`,
      ),
      lockfile.replaceAll('version: 1.0.0', `version: link:${t.secrets.path}`),
      lockfile.replaceAll('plain@1.0.0', `plain@file:${t.secrets.path}`),
      lockfile.replace('snapshots:', `snapshots:\n  'x@file:${t.secrets.path}': {}\n`),
      `${lockfile}\noverrides:\n  plain: file:${t.secrets.path}\n`,
      `${lockfile}\n---\n${lockfile}`,
      lockfile.replace('importers:\n', `importers:\n  ../..: {}\n`),
    ];
    for (const [n, text] of forged.entries()) {
      expect(text).not.toBe(lockfile);
      const read = async () => ({ ...bundle, lockfile: text });
      const provided = t.packager.bundleFiles(`forged-${n}`, read, 'u_test');
      await expect(provided).rejects.toMatchObject({ status: 400, code: 'invalid_component' });
    }
    expect(t.canary.requests).toEqual([]);
    expect(JSON.stringify(t.packager.installed())).not.toContain(SECRET);
  });
});
