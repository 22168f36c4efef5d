import { existsSync, lstatSync, readdirSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { SECRET, TOKEN, useHostileRegistry } from './hostile-registry.fixture.ts';
import { JAILS } from './jail.fixture.ts';
import type { TarEntry } from './tar.fixture.ts';

describe.each(JAILS)('a hostile registry or package, in jail %s,', (name) => {
  const t = useHostileRegistry(name);

  const redirectTo =
    (location: string): RequestListener =>
    (_, response) =>
      void response.writeHead(302, { location }).end();
  const endless: RequestListener = (_, response) => {
    const chunk = Buffer.alloc(1024 * 1024, 'x');
    const write = () => {
      while (!response.destroyed && response.write(chunk));
    };
    response.on('drain', write);
    write();
  };

  test('cannot cause a fetch from another host or by a redirect to loopback', async () => {
    t.registry.publish('elsewhere', {
      '1.0.0': { dist: { tarball: `http://${t.canary.host}/elsewhere/-/elsewhere-1.0.0.tgz` } },
    });
    expect(await t.packager.install('elsewhere')).toBe(
      `400 invalid_component: No version of elsewhere can be used. Tried: 1.0.0 (its tarball is on another host, ${t.canary.host}).`,
    );
    t.registry.publish('redirected', { '1.0.0': {} });
    t.registry.answer('/redirected/-/redirected-1.0.0.tgz', redirectTo(`http://${t.canary.host}/x.tgz`));
    expect(await t.packager.install('redirected')).toMatch(
      /^400 invalid_component: No version of redirected can be used\. Tried: 1\.0\.0 \(.*127\.0\.0\.1, which is not a public address\)\.$/,
    );
    t.registry.answer('/redirected-packument', redirectTo(`http://${t.canary.host}/x`));
    expect(await t.packager.install('redirected-packument')).toMatch(
      /^400 invalid_component: .*not a public address/,
    );
    // The mirror uses the path of the npm registry, never a reference to another host.
    for (const [n, path] of [`http://${t.canary.host}/x.tgz`, `//${t.canary.host}/x.tgz`].entries()) {
      const tarball = `https://registry.npmjs.org/${path}`;
      t.registry.publish(`mirrored-${n}`, { '1.0.0': { dist: { tarball } } });
      expect(await t.packager.install(`mirrored-${n}`)).toMatch(/1\.0\.0 \(its tarball was not found/);
    }
    expect(t.canary.requests).toEqual([]);
    expect(await (await fetch(`http://${t.canary.host}/control`)).text()).toBe('canary');
    t.canary.requests.length = 0;
    // Timeout for seven installations with retries.
  }, 120_000);

  test('gets the credentials of the operator only on its own host', async () => {
    t.registry.publish('private', { '1.0.0': {} });
    expect(await t.packager.install('private')).toMatchObject({ format: 'esm' });
    const seen = t.registry.requests.filter(({ path }) => path.startsWith('/private'));
    expect(seen.length).toBeGreaterThanOrEqual(2);
    expect(seen.every(({ authorization }) => authorization === `Bearer ${TOKEN}`)).toBe(true);
    expect(JSON.stringify(t.packager.installed())).not.toContain(TOKEN);
  });

  test('has to provide a valid integrity', async () => {
    t.registry.publish('no-integrity', { '1.0.0': { dist: { integrity: undefined } } });
    expect(await t.packager.install('no-integrity')).toBe(
      '400 invalid_component: No version of no-integrity can be used. Tried: 1.0.0 (the registry gives no valid integrity for its tarball).',
    );
    const wrong = `sha512-${Buffer.alloc(64).toString('base64')}`;
    t.registry.publish('wrong-integrity', { '1.0.0': { dist: { integrity: wrong } } });
    expect(await t.packager.install('wrong-integrity')).toBe(
      '400 invalid_component: No version of wrong-integrity can be used. Tried: 1.0.0 (its tarball does not have the integrity that the registry gives).',
    );
  });

  test('cannot leave links, devices or files outside of its directory', async () => {
    const mark = `wellspring-escaped-${name}`;
    const secret = join(t.secrets.path, 'secret.key');
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
      t.registry.publish(`tar-${n}`, { '1.0.0': { files: [{ path: 'package/index.js' }, ...files] } });
      const result = await t.packager.install(`tar-${n}`);
      if (typeof result === 'string') expect(result).toMatch(/^400 invalid_component: /);
    }
    const installed = t.packager.installed();
    expect(Object.values(installed)).not.toContain('not a file');
    expect(JSON.stringify(installed)).not.toContain(SECRET);
    expect(JSON.stringify(installed)).not.toContain('root:');
    expect(existsSync(join(tmpdir(), mark))).toBe(false);
    // Positive control: the secret can be linked to.
    expect(lstatSync(secret).isFile()).toBe(true);
  });

  test('cannot run scripts or change settings of the package manager', async () => {
    const mark = join(tmpdir(), `wellspring-script-${name}`);
    const script = `node -e "require('fs').writeFileSync('${mark}','')"; touch ${mark}`;
    const scripts = Object.fromEntries(
      ['preinstall', 'install', 'postinstall', 'prepare', 'prepublish'].map((stage) => [stage, script]),
    );
    const pnpm = {
      overrides: { other: `file:${t.secrets.path}` },
      onlyBuiltDependencies: ['scripted'],
      allowBuilds: { scripted: true },
    };
    t.registry.publish('other', { '1.0.0': {} });
    t.registry.publish('scripted', {
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
          { path: 'package/.npmrc', content: `registry=http://${t.canary.host}/\nignore-scripts=false\n` },
          { path: 'package/pnpm-workspace.yaml', content: `overrides:\n  other: file:${t.secrets.path}\n` },
          { path: 'package/.pnpmfile.cjs', content: `require('fs').writeFileSync('${mark}', '')` },
        ],
      },
    });
    expect(await t.packager.install('scripted')).toMatchObject({ format: 'esm' });
    expect(existsSync(mark)).toBe(false);
    expect(t.packager.installed()['other/index.js']).toContain('other@1.0.0');
    expect(JSON.stringify(t.packager.installed())).not.toContain(SECRET);
    expect(t.canary.requests).toEqual([]);
  });

  test('cannot exceed the size limits of answers', async () => {
    t.registry.publish('huge-tarball', { '1.0.0': {} });
    t.registry.answer('/huge-tarball/-/huge-tarball-1.0.0.tgz', endless);
    expect(await t.packager.install('huge-tarball')).toBe(
      '400 invalid_component: No version of huge-tarball can be used. Tried: 1.0.0 (its tarball has more than 128 MB).',
    );
    t.registry.answer('/huge-packument', endless);
    expect(await t.packager.install('huge-packument')).toMatch(
      /^400 invalid_component: The package huge-packument/,
    );
    t.registry.answer('/not-json', (_, response) => void response.end('<html>'));
    expect(await t.packager.install('not-json')).toMatch(/^(400|503) /);
    // Others are not affected.
    t.registry.publish('after', { '1.0.0': {} });
    expect(await t.packager.install('after')).toMatchObject({ format: 'esm' });
  });

  test('with thousands of tags of missing versions is read in linear time', async () => {
    const one = { '1.0.0': {}, '1.0.1': {} };
    const numbers = Array.from({ length: 8000 }, (_, n) => n);
    const dist = { tarball: `${t.registry.url}tags/-/tags-1.0.0.tgz`, integrity: 'sha512-AAAA' };
    t.registry.publish('many-tags', one, {
      'dist-tags': {
        latest: '1.0.0',
        next: '1.0.7',
        ...Object.fromEntries(numbers.map((n) => [`t${n}`, `2.0.${n}`])),
      },
      versions: Object.fromEntries(
        numbers.map((n) => [`1.0.${n}`, { name: 'many-tags', version: `1.0.${n}`, dist }]),
      ),
    });
    expect(await t.packager.install('many-tags@1.0.7')).toMatch(
      /^400 invalid_component: No version of many-tags@1\.0\.7/,
    );
  });

  test('with thousands of versions that depend on different ranges of itself is refused', async () => {
    t.registry.publish(
      'self-dependent',
      Object.fromEntries(
        Array.from({ length: 4000 }, (_, n) => [
          `1.0.${n}`,
          { manifest: { dependencies: { 'self-dependent': `>=2.0.${n} <2.0.${n + 1}` } } },
        ]),
      ),
    );
    expect(await t.packager.install('self-dependent@1.0.0')).toMatch(
      /^400 invalid_component: No version of self-dependent@1\.0\.0 can be used/,
    );
  }, 120_000);

  test('cannot unpack more than the limit of the jail', async () => {
    const zeros = Buffer.alloc(300 * 1024 * 1024);
    t.registry.publish('bomb', {
      '1.0.0': {
        files: [
          { path: 'package/index.js' },
          { path: 'package/a', content: zeros },
          { path: 'package/b', content: zeros },
        ],
      },
    });
    expect(await t.packager.install('bomb')).toMatch(
      /^400 invalid_component: The packages (are too large\.|have more than 512 MB when they are unpacked\.)$/,
    );
    expect(
      readdirSync(join(t.packager.dataDir, 'packages', 'sets')).filter((set) => set.endsWith('.part')),
    ).toEqual([]);
  }, 240_000);
});
