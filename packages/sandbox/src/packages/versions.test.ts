import { describe, expect, test } from '@jest/globals';
import { forSuite } from '@wellspring/testing/lifetimes';
import { STRONGEST_JAILS } from './jail.fixture.ts';
import { openTestPackager } from './packager.fixture.ts';
import { openRegistry } from './registry.fixture.ts';

const NOW = new Date().toISOString();

describe.each(STRONGEST_JAILS)(
  'an unusable version is replaced by the newest usable one, in jail %s,',
  (jail) => {
    const registry = forSuite(openRegistry);
    const packager = forSuite(() =>
      openTestPackager(jail, {
        npm_config_registry: registry.url,
        pnpm_config_minimum_release_age: '1440',
      }),
    );

    const lockfileOf = async (...specifiers: string[]) => {
      const bundle = await packager.install(...specifiers);
      if (typeof bundle === 'string') throw new Error(bundle);
      return bundle.lockfile;
    };

    test('if it is younger than the minimum release age', async () => {
      registry.publish('young', { '1.0.0': {}, '1.1.0': {}, '1.2.0': { publishedAt: NOW } });
      expect(await lockfileOf('young')).toContain('young@1.1.0');
      expect(await lockfileOf('young@^1.0.0')).toContain('young@1.1.0');
      registry.publish('too-young', { '1.0.0': { publishedAt: NOW }, '1.0.1': { publishedAt: NOW } });
      expect(await packager.install('too-young@1')).toMatch(
        /^400 invalid_component: No version of too-young@1 can be used\. Tried: 1\.0\.1 \(it was published on .*, which the minimum release age forbids\); 1\.0\.0 /,
      );
      expect(await packager.install('young@1.2.0')).toMatch(/No version of young@1\.2\.0 can be used/);
    });

    test('if its tarball is missing', async () => {
      registry.publish('incomplete', { '1.0.0': {}, '1.1.0': {}, '1.2.0': {} });
      for (const version of ['1.1.0', '1.2.0'])
        registry.answer(`/incomplete/-/incomplete-${version}.tgz`, (_, response) => {
          response.writeHead(404).end();
        });
      expect(await lockfileOf('incomplete')).toContain('incomplete@1.0.0');
      expect(await packager.install('incomplete@^1.1.0')).toBe(
        '400 invalid_component: No version of incomplete@^1.1.0 can be used. Tried: 1.2.0 (its tarball was not found (status 404)); 1.1.0 (its tarball was not found (status 404)).',
      );
    });

    test('but none is while the registry limits requests', async () => {
      registry.publish('limited', { '1.0.0': {}, '1.1.0': {} });
      registry.publish('needs-limited', {
        '1.0.0': {},
        '1.1.0': { manifest: { dependencies: { limited: '^1' } } },
      });
      const limit = (path: string) =>
        registry.answer(path, (_, response) => {
          response.writeHead(429).end();
        });
      limit('/limited/-/limited-1.1.0.tgz');
      expect(await packager.install('limited')).toMatch(/^503 /);
      limit('/limited');
      expect(await packager.install('needs-limited')).toMatch(/^503 /);
    });

    test('if a direct or indirect dependency does not exist', async () => {
      registry.publish('broken', {
        '1.0.0': {},
        '1.1.0': { manifest: { dependencies: { 'does-not-exist': '1' } } },
        '1.2.0': { manifest: { dependencies: { young: '^9' } } },
      });
      registry.publish('above', { '2.0.0': { manifest: { dependencies: { broken: '^1' } } } });
      expect(await lockfileOf('above')).toContain('broken@1.0.0');
      registry.publish('hopeless', {
        '1.0.0': { manifest: { dependencies: { 'does-not-exist': '1' } } },
      });
      expect(await packager.install('hopeless')).toBe(
        '400 invalid_component: No version of hopeless can be used. Tried: 1.0.0 (it depends on does-not-exist, which was not found in the npm registry).',
      );
    });

    test('but young versions are used if only the default age excludes them', async () => {
      await using plain = await openTestPackager(jail, { npm_config_registry: registry.url });
      expect(await plain.install('young')).toMatchObject({
        lockfile: expect.stringContaining('young@1.1.0'),
      });
      expect(await plain.install('too-young')).toMatchObject({
        lockfile: expect.stringContaining('too-young@1.0.1'),
      });
    });

    test('and missing names and versions are reported', async () => {
      expect(await packager.install('nobody-published-this')).toBe(
        '400 invalid_component: The package nobody-published-this was not found in the npm registry.',
      );
      expect(await packager.install('young@7')).toBe(
        '400 invalid_component: No version of young@7 was found in the npm registry.',
      );
    });

    test('equal packages are resolved once for components that are published one after the other', async () => {
      registry.publish('shared', { '1.0.0': {} });
      const requests = () => registry.requests.filter(({ path }) => path === '/shared').length;
      const [first, second] = await Promise.all([lockfileOf('shared'), lockfileOf('shared')]);
      const before = requests();
      expect(await lockfileOf('shared')).toBe(first);
      expect(second).toBe(first);
      expect(requests()).toBe(before);
    });

    test('a packument is fetched once for components that are published one after the other', async () => {
      registry.publish('common', { '1.0.0': {} });
      registry.publish('beside', { '1.0.0': { manifest: { dependencies: { common: '1' } } } });
      const requests = () => registry.requests.filter(({ path }) => path === '/common').length;
      expect(await lockfileOf('common')).toContain('common@1.0.0');
      const before = requests();
      expect(await lockfileOf('common@^1.0.0')).toContain('common@1.0.0');
      expect(await lockfileOf('beside')).toContain('common@1.0.0');
      expect(requests()).toBe(before);
      registry.publish('common', { '1.0.0': {}, '1.0.1': {} });
      expect(await lockfileOf('common@1.0.1')).toContain('common@1.0.1');
      expect(requests()).toBeGreaterThan(before);
      expect(await packager.install('common@7')).toBe(
        '400 invalid_component: No version of common@7 was found in the npm registry.',
      );
    });

    test('import attributes in obsolete syntax are rewritten, similar text is not', async () => {
      const old = `import data from './data.json' assert { type: 'json' };\nexport default data;\n`;
      const text = `export default "import x from './x.json' assert { type: 'json' }";\n`;
      registry.publish('attributes', {
        '1.0.0': {
          manifest: { type: 'module' },
          files: [
            { path: 'package/index.js', content: old },
            {
              path: 'package/late.mjs',
              content: `export default () => import("./data.json", { assert: { type: "json" } });\n`,
            },
            { path: 'package/text.js', content: text },
            { path: 'package/data.json', content: '{"value":42}' },
          ],
        },
      });
      expect(await packager.install('attributes')).toMatchObject({ format: 'esm' });
      const installed = packager.installed();
      expect(installed['attributes/index.js']).toBe(old.replace('assert', 'with'));
      expect(installed['attributes/late.mjs']).toContain('{ with: { type: "json" } }');
      expect(installed['attributes/text.js']).toBe(text);
    });
  },
);
