import { existsSync, lstatSync, readdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import { JAILS } from './jail.fixture.ts';
import { openTestPackager, type TestPackager } from './packager.fixture.ts';
import { type Canary, openCanary, openRegistry, type TestRegistry } from './registry.fixture.ts';
import type { TarEntry } from './tar.fixture.ts';

const SECRET = 'the key of the platform';

describe.each(JAILS)('a hostile registry or package, in jail %s,', (name) => {
  let registry: TestRegistry;
  let canary: Canary;
  let secrets: TempDir;
  let packager: TestPackager;
  beforeAll(async () => {
    registry = await openRegistry();
    canary = await openCanary();
    secrets = await tempDir();
    writeFileSync(join(secrets.path, 'secret.key'), SECRET);
    packager = await openTestPackager(name, {
      npm_config_registry: registry.url,
      [`npm_config_//${registry.url.slice(7)}:_authToken`]: 'token-of-the-operator',
    });
  });
  afterAll(async () => {
    for (const one of [packager, secrets, canary, registry]) await one[Symbol.asyncDispose]();
  });

  const bytes = (count: number) => Buffer.alloc(count, 'x');

  test('cannot have a tarball fetched from another host, nor by a redirect to loopback', async () => {
    registry.publish('elsewhere', {
      '1.0.0': { dist: { tarball: `http://${canary.host}/elsewhere/-/elsewhere-1.0.0.tgz` } },
    });
    expect(await packager.install('elsewhere')).toBe(
      `400 invalid_component: No version of elsewhere can be used. Tried: 1.0.0 (its tarball is on another host, ${canary.host}).`,
    );
    registry.publish('redirected', { '1.0.0': {} });
    registry.answer('/redirected/-/redirected-1.0.0.tgz', (_, response) => {
      response.writeHead(302, { location: `http://${canary.host}/x.tgz` }).end();
    });
    expect(await packager.install('redirected')).toMatch(
      /^400 invalid_component: No version of redirected can be used\. Tried: 1\.0\.0 \(.*127\.0\.0\.1, which is not a public address\)\.$/,
    );
    registry.answer('/redirected-packument', (_, response) => {
      response.writeHead(302, { location: `http://${canary.host}/x` }).end();
    });
    expect(await packager.install('redirected-packument')).toMatch(
      /^400 invalid_component: .*not a public address/,
    );
    // The path of a tarball at the npm registry is that at its mirror, never a reference to another host.
    for (const [n, path] of [`http://${canary.host}/x.tgz`, `//${canary.host}/x.tgz`].entries()) {
      const tarball = `https://registry.npmjs.org/${path}`;
      registry.publish(`mirrored-${n}`, { '1.0.0': { dist: { tarball } } });
      expect(await packager.install(`mirrored-${n}`)).toMatch(/1\.0\.0 \(its tarball was not found/);
    }
    expect(canary.requests).toEqual([]);
    expect(await (await fetch(`http://${canary.host}/control`)).text()).toBe('canary');
    canary.requests.length = 0;
  });

  test('gets the credentials of the operator only on its own host', async () => {
    registry.publish('private', { '1.0.0': {} });
    expect(await packager.install('private')).toMatchObject({ format: 'esm' });
    const seen = registry.requests.filter(({ path }) => path.startsWith('/private'));
    expect(seen.length).toBeGreaterThanOrEqual(2);
    expect(seen.every(({ authorization }) => authorization === 'Bearer token-of-the-operator')).toBe(true);
    expect(JSON.stringify(packager.installed())).not.toContain('token-of-the-operator');
  });

  test('has to give an integrity, and the right one', async () => {
    registry.publish('no-integrity', { '1.0.0': { dist: { integrity: undefined } } });
    expect(await packager.install('no-integrity')).toBe(
      '400 invalid_component: No version of no-integrity can be used. Tried: 1.0.0 (the registry gives no valid integrity for its tarball).',
    );
    const wrong = `sha512-${Buffer.alloc(64).toString('base64')}`;
    registry.publish('wrong-integrity', { '1.0.0': { dist: { integrity: wrong } } });
    expect(await packager.install('wrong-integrity')).toBe(
      '400 invalid_component: No version of wrong-integrity can be used. Tried: 1.0.0 (its tarball does not have the integrity that the registry gives).',
    );
  });

  test('cannot leave links, devices or files outside of its directory', async () => {
    const mark = `wellspring-escaped-${name}`;
    const secret = join(secrets.path, 'secret.key');
    const entries: TarEntry[][] = [
      [{ path: 'package/link', type: '2', target: secret }],
      [{ path: 'package/hard', type: '1', target: secret }],
      [
        { path: 'package/directory', type: '2', target: tmpdir() },
        { path: `package/directory/${mark}`, content: 'x' },
      ],
      [{ path: 'package/up', type: '2', target: '../../../../../../../../etc/passwd' }],
      [{ path: `package/../../../../../../../../../../tmp/${mark}`, content: 'x' }],
      [{ path: `${tmpdir()}/${mark}`, content: 'x' }],
      [{ path: 'package/device', type: '3' }],
    ];
    for (const [n, files] of entries.entries()) {
      registry.publish(`tar-${n}`, { '1.0.0': { files: [{ path: 'package/index.js' }, ...files] } });
      const result = await packager.install(`tar-${n}`);
      if (typeof result === 'string') expect(result).toMatch(/^400 invalid_component: /);
    }
    const installed = packager.installed();
    expect(Object.values(installed)).not.toContain('not a file');
    expect(JSON.stringify(installed)).not.toContain(SECRET);
    expect(JSON.stringify(installed)).not.toContain('root:');
    expect(existsSync(join(tmpdir(), mark))).toBe(false);
    // Positive control: the secret is a file that can be linked to.
    expect(lstatSync(secret).isFile()).toBe(true);
  });

  test('cannot have scripts run, or change the settings of the package manager', async () => {
    const mark = join(tmpdir(), `wellspring-script-${name}`);
    const script = `node -e "require('fs').writeFileSync('${mark}','')"; touch ${mark}`;
    const scripts = Object.fromEntries(
      ['preinstall', 'install', 'postinstall', 'prepare', 'prepublish'].map((stage) => [stage, script]),
    );
    const pnpm = {
      overrides: { other: `file:${secrets.path}` },
      onlyBuiltDependencies: ['scripted'],
      allowBuilds: { scripted: true },
    };
    registry.publish('other', { '1.0.0': {} });
    registry.publish('scripted', {
      '1.0.0': {
        manifest: {
          scripts,
          pnpm,
          hasInstallScript: true,
          dependencies: { other: '1.0.0' },
          bin: { x: '../../x' },
        },
        files: [
          { path: 'package/index.js', content: '' },
          { path: 'package/binding.gyp', content: '{"targets":[]}' },
          { path: 'package/.npmrc', content: `registry=http://${canary.host}/\nignore-scripts=false\n` },
          { path: 'package/pnpm-workspace.yaml', content: `overrides:\n  other: file:${secrets.path}\n` },
          { path: 'package/.pnpmfile.cjs', content: `require('fs').writeFileSync('${mark}', '')` },
        ],
      },
    });
    expect(await packager.install('scripted')).toMatchObject({ format: 'esm' });
    expect(existsSync(mark)).toBe(false);
    expect(packager.installed()['other/index.js']).toContain('other@1.0.0');
    expect(JSON.stringify(packager.installed())).not.toContain(SECRET);
    expect(canary.requests).toEqual([]);
  });

  test('cannot answer with more than fits', async () => {
    registry.publish('huge-tarball', { '1.0.0': {} });
    registry.answer('/huge-tarball/-/huge-tarball-1.0.0.tgz', (_, response) => {
      const chunk = bytes(1024 * 1024);
      const write = () => {
        while (!response.destroyed && response.write(chunk));
      };
      response.on('drain', write);
      write();
    });
    expect(await packager.install('huge-tarball')).toBe(
      '400 invalid_component: No version of huge-tarball can be used. Tried: 1.0.0 (its tarball has more than 128 MB).',
    );
    registry.answer('/huge-packument', (_, response) => {
      const chunk = bytes(1024 * 1024);
      const write = () => {
        while (!response.destroyed && response.write(chunk));
      };
      response.on('drain', write);
      write();
    });
    expect(await packager.install('huge-packument')).toMatch(
      /^400 invalid_component: The package huge-packument/,
    );
    registry.answer('/not-json', (_, response) => void response.end('<html>'));
    expect(await packager.install('not-json')).toMatch(/^(400|503) /);
    // It still works for others.
    registry.publish('after', { '1.0.0': {} });
    expect(await packager.install('after')).toMatchObject({ format: 'esm' });
  });

  test('with thousands of tags for versions that do not exist is read once, not once for each tag', async () => {
    const one = { '1.0.0': {}, '1.0.1': {} };
    const numbers = Array.from({ length: 8000 }, (_, n) => n);
    const dist = { tarball: `${registry.url}tags/-/tags-1.0.0.tgz`, integrity: 'sha512-AAAA' };
    registry.publish('many-tags', one, {
      'dist-tags': {
        latest: '1.0.0',
        next: '1.0.7',
        ...Object.fromEntries(numbers.map((n) => [`t${n}`, `2.0.${n}`])),
      },
      versions: Object.fromEntries(
        numbers.map((n) => [`1.0.${n}`, { name: 'many-tags', version: `1.0.${n}`, dist }]),
      ),
    });
    expect(await packager.install('many-tags@1.0.7')).toMatch(
      /^400 invalid_component: No version of many-tags@1\.0\.7/,
    );
  });

  test('with thousands of versions that each ask for another range of itself is refused', async () => {
    registry.publish(
      'self-dependent',
      Object.fromEntries(
        Array.from({ length: 4000 }, (_, n) => [
          `1.0.${n}`,
          { manifest: { dependencies: { 'self-dependent': `>=2.0.${n} <2.0.${n + 1}` } } },
        ]),
      ),
    );
    expect(await packager.install('self-dependent@1.0.0')).toMatch(
      /^400 invalid_component: No version of self-dependent@1\.0\.0 can be used/,
    );
  }, 120_000);

  test('cannot unpack more than the jail holds', async () => {
    const zeros = Buffer.alloc(300 * 1024 * 1024);
    registry.publish('bomb', {
      '1.0.0': {
        files: [
          { path: 'package/index.js' },
          { path: 'package/a', content: zeros },
          { path: 'package/b', content: zeros },
        ],
      },
    });
    expect(await packager.install('bomb')).toMatch(
      /^400 invalid_component: The packages (are too large\.|have more than 512 MB when they are unpacked\.)$/,
    );
    expect(
      readdirSync(join(packager.dataDir, 'packages', 'sets')).filter((set) => set.endsWith('.part')),
    ).toEqual([]);
  }, 240_000);
});
