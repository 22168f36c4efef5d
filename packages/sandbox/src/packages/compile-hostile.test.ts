import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { tempDir } from '@wellspring/testing/temp-dir';
import { JAILS, useCompiler } from './jail.fixture.ts';

describe.each(JAILS)('the compiler in jail %s', (name) => {
  const { compile, refusal } = useCompiler(name);

  test('refuses code whose indentation makes it a thousand times longer', async () => {
    const nested = (depth: number) => `${'if (a) { f();'.repeat(depth)}${'}'.repeat(depth)}`;
    expect(await refusal(nested(100))).toBe('compiled');
    expect(await refusal(nested(3000))).toBe(
      '400 invalid_component: The code is too large or nested too deeply to be compiled.',
    );
  }, 120_000);

  describe('files of the host', () => {
    test('are not found by an import whose name is computed at run time', async () => {
      await using directory = await tempDir();
      writeFileSync(join(directory.path, 'credentials.json'), '{"admin_key":"do not tell"}');
      const url = `https://example.com${directory.path}/source.mjs`;
      for (const start of [`.${directory.path}`, `../..${directory.path}`]) {
        for (const code of [
          `export default { name: 'x', read: (n) => import(\`${start}/\${n}.json\`) }`,
          `module.exports = { name: 'x', read: (n) => require('${start}/' + n + '.json') }`,
          `module.exports = { name: 'x', read: (n) => require('${start}/' + n) }`,
        ]) {
          expect(await refusal(code)).toMatch(/^400 invalid_component: Could not resolve/);
          const modules = { [`https://example.com${directory.path}/lib.mjs`]: code };
          expect(await refusal(`import './lib.mjs'`, { modules, url })).toMatch(
            /^400 invalid_component: Could not resolve/,
          );
        }
      }
    });

    test('are not read as source maps', async () => {
      await using directory = await tempDir();
      // Opening it would block forever.
      const pipe = join(directory.path, 'pipe');
      execFileSync('mkfifo', [pipe]);
      for (const path of [pipe, pipe.slice(1), `file://${pipe}`]) {
        const { code } = await compile({
          code: `export default { name: 'x' }\n//# sourceMappingURL=${path}\n`,
        });
        expect(code).toContain('name: "x"');
      }
    });
  });

  describe('code that exceeds any compiler', () => {
    test.each(['(', '[', 'a=>', '!'])(
      '(%s a million times) is refused and does not affect others',
      async (nested) => {
        const bomb = refusal(`export default ${nested.repeat(1_000_000)}`);
        const others = Array.from({ length: 4 }, (_, n) =>
          compile({ code: `export default { name: "x${n}" }` }),
        );
        expect(await bomb).toMatch(/^400 invalid_component: /);
        for (const [n, other] of (await Promise.all(others)).entries()) expect(other.code).toContain(`x${n}`);
        expect((await compile({ code: 'export default { name: "after" }' })).code).toContain('after');
      },
    );

    test('does not include long lists or code of ordinary depth', async () => {
      const code = `export default { name: "x", list: [${'{ a: [1, "b"] },'.repeat(20_000)}], deep: ${'['.repeat(500)}${']'.repeat(500)} }`;
      expect((await compile({ code })).format).toBe('esm');
    });
  });
});
