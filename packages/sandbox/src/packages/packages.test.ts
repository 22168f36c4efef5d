import { describe, expect, jest, test } from '@jest/globals';
import { forSuite } from '@wellspring/testing/lifetimes';
import { createRecorder, openSandbox, type TestSandbox, TIERS, values } from '../sandbox.fixture.ts';

// Installs packages of the npm registry.
jest.setTimeout(120_000);

describe.each(TIERS)('packages in tier %s', (tier) => {
  const sandbox = forSuite(() => openSandbox(tier));

  test('are available in the requested versions, several per package, by import and require', async () => {
    const modern = await sandbox.runModule(
      `import old from 'ms@2.0.0'; import ms from 'ms'; import pick from 'lodash@4.17.20/pick.js';
       import { createRequire } from 'node:module';
       export default { name: 'x', run() {
         const version = (name) => createRequire(import.meta.url)(name + '/package.json').version;
         this.$emit([old('2 days'), ms('1m'), pick({ a: 1, b: 2 }, 'a')]) } }`,
    );
    expect(values(modern)).toEqual([[172_800_000, 60_000, { a: 1 }]]);
    const common = await sandbox.runModule(
      `const { VERSION } = require('lodash@4.17.20');
       module.exports = { name: 'x', run() { this.$emit(VERSION) } }`,
    );
    expect(values(common)).toEqual(['4.17.20']);
  });

  test('of ES modules are required as if they were of CommonJS', async () => {
    const common = await sandbox.runModule(
      `const limit = require('p-limit@6.1.0'); const { default: same } = require('p-limit@6.1.0');
       const { nanoid, customAlphabet } = require('nanoid@5.0.9'); const ms = require('ms@2.0.0');
       module.exports = { name: 'x', async run() {
         const one = await limit(1)(async () => 'limited');
         this.$emit([one, await same(1)(() => 'same'), nanoid().length, typeof customAlphabet, ms('1s')]);
       } }`,
    );
    expect(values(common)).toEqual([['limited', 'same', 21, 'function', 1000]]);
  });

  test('of a module of CommonJS are found behind an ES module', async () => {
    const outcome = await sandbox.runModule(
      `import app from './app.js'; export default { name: 'x', run() { this.$emit(app.methods.second()) } }`,
      {
        from: {
          url: 'folder:///a/a.mjs',
          modules: {
            'folder:///a/app.js': `const ms = require('ms@2.0.0'); const { join } = require('path');
            module.exports = { methods: { second: () => [ms('1s'), join('a', 'b')] } };`,
          },
        },
      },
    );
    expect(values(outcome)).toEqual([[1000, 'a/b']]);
  });

  if (tier !== 'none') {
    test('with native addons find their shared libraries', async () => {
      const outcome = await sandbox.runModule(
        `import { crc32 } from '@node-rs/crc32@1.10.6'; import sharp from 'sharp@0.34.5';
         export default { name: 'x', async run() {
           const blank = { width: 4, height: 4, channels: 3, background: 'red' };
           const png = await sharp({ create: blank }).png().toBuffer();
           this.$emit([crc32('hello'), png.subarray(1, 4).toString()]);
         } }`,
      );
      expect(outcome).toMatchObject({ ok: true });
      expect(values(outcome)).toEqual([[0x3610a686, 'PNG']]);
    });
  }

  test('of other sources are not visible', async () => {
    const outcome = await sandbox.runModule(
      `import fs from 'node:fs'; import path from 'node:path'; import ms from 'ms@2.0.0';
       import { createRequire } from 'node:module';
       export default { name: 'x', run() {
         const own = path.dirname(fs.realpathSync(path.join(path.dirname(new URL(import.meta.url).pathname), 'node_modules')));
         const attempt = (act) => { try { return act() } catch ({ code }) { return code } };
         this.$emit([ms('1s'), attempt(() => fs.readdirSync(path.dirname(own))), attempt(() => fs.writeFileSync(own + '/x', ''))]);
       } }`,
    );
    const [[used, listed, written]] = values(outcome) as [unknown[]];
    expect(used).toBe(1000);
    // In tier launcher the packages are in the process directory, which is the root of the sandbox.
    if (tier === 'launcher') expect(listed).not.toContain('packages');
    else expect(String(listed)).toMatch(/EACCES|ERR_ACCESS_DENIED/);
    expect(String(written)).toMatch(/EACCES|EROFS|ERR_ACCESS_DENIED/);
  });

  test('are reinstalled from the lockfile of the bundle', async () => {
    const { id, bundle } = await sandbox.packager.bundle(
      { code: `import ms from 'ms@^2.0.0'; export default { name: 'x', run() { this.$emit(ms('1s')) } }` },
      { ownerId: 'u_test' },
    );
    expect(bundle.lockfile).toMatch(/ms@2\.\d+\.\d+/);
    await using other = await openSandbox(tier);
    const recorder = createRecorder();
    const result = await other.executor.execute(
      {
        bundleId: id,
        readBundle: async () => bundle,
        instance: { source_id: 'dc_x', props: [], values: {}, endpoints: {}, db: {}, dbRevision: 0 },
        call: { kind: 'run', trigger: { kind: 'value', json: '{}' }, emitTrigger: false },
      },
      recorder,
      { timeoutMs: 60_000 },
    );
    expect(result).toMatchObject({ ok: true });
    expect(values(recorder)).toEqual([1000]);
  });
});

describe('packages that cannot be installed', () => {
  const sandbox = forSuite(() => openSandbox('none'));
  const bundle = ({ packager }: TestSandbox, specifier: string) => {
    const code = `import x from '${specifier}'; export default { name: 'x', x }`;
    return packager.bundle({ code }, { ownerId: 'u_test' });
  };

  test.each([
    ['an unknown name', '@wellspring-no-such-scope/no-such-package'],
    ['an unknown version', 'ms@99.0.0'],
    ['an unknown tag', 'ms@no-such-tag'],
  ])('because of %s are named', async (_why, specifier) => {
    await expect(bundle(sandbox, specifier)).rejects.toMatchObject({
      status: 400,
      code: 'invalid_component',
      message: expect.stringContaining(specifier),
    });
  });

  test('because the registry does not answer give a 503', async () => {
    await using cut = await openSandbox('none', {
      packageEnvironment: {
        npm_config_registry: 'http://127.0.0.1:9/',
        pnpm_config_registry: 'http://127.0.0.1:9/',
        npm_config_fetch_retries: '0',
        pnpm_config_fetch_retries: '0',
      },
    });
    await expect(bundle(cut, 'ms')).rejects.toMatchObject({ status: 503 });
  });
});
