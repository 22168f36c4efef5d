import { describe, expect, test } from '@jest/globals';
import { STRONGEST_JAILS, useCompiler } from './jail.fixture.ts';

describe.each(STRONGEST_JAILS)('in jail %s, imports', (name) => {
  const { compile, refusal } = useCompiler(name);

  test.each([
    ['https://example.com/a', 'https://example.com/a/lib.mjs'],
    ['folder:///a', 'a/lib.mjs'],
  ])(
    'of a module of %s that does not parse are refused with its name and the position',
    async (base, named) => {
      const code = `import { value } from './lib.mjs'; export default { name: 'x', value }`;
      const of = (text: string) =>
        refusal(code, { url: `${base}/source.mjs`, modules: { [`${base}/lib.mjs`]: text } });
      expect(await of('\nexport const value = ;')).toBe(
        `400 invalid_component: Unexpected ";" (${named}, line 2, column 22)`,
      );
      expect(await of(`import gone from './gone.mjs';\nexport const value = gone;`)).toBe(
        `400 invalid_component: ./gone.mjs cannot be imported: there is no such module. (${named}, line 1, column 18)`,
      );
    },
  );

  test('are refused in JavaScript also if nothing uses them; those of types in TypeScript need no module', async () => {
    const url = 'https://example.com/a/source.mjs';
    for (const module of ['./gone.mjs', './types', 'https://example.com/x.js']) {
      const javaScript = `import gone from '${module}';\nexport default { name: 'x' };`;
      expect(await refusal(javaScript)).toMatch(/cannot be imported: .* \(line 1, column 18\)$/);
      expect(await refusal(javaScript, { url, modules: {} })).toMatch(/\(line 1, column 18\)$/);
      const typeScript = `import { Gone } from '${module}';\nexport default { name: 'x' as Gone };`;
      expect((await compile({ code: typeScript })).code).not.toContain(module);
    }
    const typed = `import type { Gone } from './gone';\nexport default { name: 'x' };`;
    expect(await refusal(typed)).toBe('compiled');
  });
});
