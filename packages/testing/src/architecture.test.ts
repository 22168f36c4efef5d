import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { importsOf } from './architecture/imports.ts';
import { IMPORTERS, RULES } from './architecture/rules.ts';
import { readTree, type SourceFile, type Tree } from './architecture/tree.ts';

const tree = await readTree(join(import.meta.dirname, '../../..'));

test('readTree finds every package and its imports', () => {
  expect(tree.packages.length).toBeGreaterThanOrEqual(20);
  for (const { name, directory } of tree.packages) {
    const files = tree.files.filter((file) => file.package === name);
    expect({ directory, empty: files.length === 0 }).toEqual({ directory, empty: false });
    expect({ directory, imports: files.some(({ imports }) => imports.length > 0) }).toMatchObject({
      imports: true,
    });
  }
  expect(tree.files.flatMap(({ imports }) => imports).length).toBeGreaterThan(500);
});

test.each(Object.keys(RULES))('the workspace follows the rule %s', (name) => {
  expect(RULES[name]!(tree)).toEqual([]);
});

describe('importsOf', () => {
  test('finds imports of every form, but not in comments, strings and templates', async () => {
    const source = `
      import 'side-effect';
      import type Default from 'type-default';
      import type { A, B } from 'type-named';
      import type * as All from 'type-all';
      import { type C, d } from "mixed";
      import {
        type E,
      } from 'only-types';
      export * from 'export-all';
      export type { F } from 'export-type';
      export type Local = { from: 'not-this-one' };
      // import x from 'comment';
      /* import y from 'block-comment'; */
      const code = \`
import z from 'template';
import type { Z } from 'template-type';\`;
      const text = "import q from 'string'", re = /import r from 'regex'/;
      const later = (x: string): Promise<unknown> => import('dynamic');
      let typed: import('type-position').G<string> = <never>5 / 2;
    `;
    expect(await importsOf(source)).toEqual([
      'side-effect',
      'type-default',
      'type-named',
      'type-all',
      'mixed',
      'only-types',
      'export-all',
      'export-type',
      'dynamic',
      'type-position',
    ]);
  });
});

describe('each rule finds violations', () => {
  const manifest = (name: string, directory: string, dependencies: string[] = []) => ({
    name: `@wellspring/${name}`,
    directory,
    dependencies,
    devDependencies: ['@wellspring/testing'],
  });
  const packages = [
    manifest('core', 'packages/core', ['croner']),
    manifest('store', 'packages/store', ['@wellspring/core']),
    manifest('runtime', 'packages/runtime', ['@wellspring/store']),
    manifest('service-events', 'services/events', ['@wellspring/service-runner', '@wellspring/store']),
    manifest('service-runner', 'services/runner'),
    manifest('testing', 'packages/testing'),
  ];
  const file = (path: string, imports: string[] = [], text = ''): SourceFile => {
    const owner = packages.find(({ directory }) => path.startsWith(`${directory}/`))!;
    return { path, text, imports, package: owner.name };
  };
  const check = (rule: string, ...files: SourceFile[]): string[] =>
    RULES[rule]!({ files, packages, rootDevDependencies: ['fast-check'] } satisfies Tree);

  test('declared', () => {
    const path = 'packages/store/src/a.ts';
    expect(check('declared', file(path, ['got/x']))).toEqual([
      `${path} imports got/x: not in packages/store/package.json`,
    ]);
    expect(check('declared', file(path, ['@wellspring/testing/x']))).toHaveLength(1);
    expect(check('declared', file(path, ['fast-check']))).toHaveLength(1);
    const allowed = ['node:fs', 'fs', './b.ts', '@wellspring/core/ids'];
    expect(check('declared', file(path, allowed))).toEqual([]);
    expect(
      check('declared', file('packages/store/src/a.test.ts', ['fast-check', '@wellspring/testing/x'])),
    ).toEqual([]);
  });

  test('layers', () => {
    const imports = (path: string, specifier: string) => check('layers', file(path, [specifier])).length;
    expect(imports('packages/core/src/a.ts', '@wellspring/store/port')).toBe(1);
    expect(imports('packages/core/src/a.test.ts', '@wellspring/store/port')).toBe(0);
    expect(imports('packages/store/src/a.ts', '@wellspring/queue/port')).toBe(1);
    expect(imports('packages/store/src/a.ts', '@wellspring/runtime/deps')).toBe(1);
    expect(imports('packages/store/src/a.ts', '@wellspring/store/port')).toBe(1);
    expect(imports('packages/store/src/a.ts', '@wellspring/testing/eventually')).toBe(1);
    expect(imports('services/events/src/a.ts', '@wellspring/service-runner/commit')).toBe(1);
    expect(imports('services/events/src/a.test.ts', '@wellspring/service-runner/commit')).toBe(1);
    expect(imports('services/events/src/a.ts', '@wellspring/store/port')).toBe(0);
    expect(imports('services/events/src/a.test.ts', '@wellspring/testing/eventually')).toBe(0);
    const unlisted = { ...manifest('new', 'packages/new') };
    expect(RULES.layers!({ files: [], packages: [unlisted], rootDevDependencies: [] })).toEqual([
      '@wellspring/new has no layer',
    ]);
  });

  test('testsStayApart', () => {
    const fixture = file('services/events/src/platform.fixture.ts');
    expect(
      check('testsStayApart', fixture, file('services/events/src/a.ts', ['./platform.fixture.ts'])),
    ).toHaveLength(1);
    expect(
      check('testsStayApart', fixture, file('services/events/src/a.test.ts', ['./platform.fixture.ts'])),
    ).toEqual([]);
  });

  test('noCycles', () => {
    const path = (name: string) => `services/events/src/${name}.ts`;
    const chain = [file(path('a'), ['./b.ts', './c.ts']), file(path('b'), ['./c.ts']), file(path('c'))];
    expect(check('noCycles', ...chain)).toEqual([]);
    expect(check('noCycles', ...chain.slice(0, 2), file(path('c'), ['./b.ts']))).toEqual([
      `${path('b')} → ${path('c')} → ${path('b')}`,
    ]);
  });

  test('importers', () => {
    const used = Object.entries(IMPORTERS).map(([name, importer]) => ({
      ...file('packages/core/src/a.ts', [name]),
      path: importer,
    }));
    expect(check('importers', ...used)).toEqual([]);
    expect(check('importers', ...used, file('services/runner/src/a.ts', ['got']))).toHaveLength(1);
    expect(check('importers', ...used, file('services/runner/src/a.test.ts', ['got']))).toEqual([]);
    expect(check('importers', ...used, file('services/runner/src/a.ts', ['node:sqlite']))).toHaveLength(1);
    expect(check('importers', ...used, file('services/runner/src/a.ts', ['lodash']))).toHaveLength(1);
    expect(check('importers', ...used.slice(1))).toHaveLength(1);
  });

  test('adapters', () => {
    const specifier = '@wellspring/store/embedded';
    expect(check('adapters', file('services/events/src/a.ts', [specifier]))).toHaveLength(1);
    expect(check('adapters', file('packages/runtime/src/infra.ts', [specifier]))).toEqual([]);
    expect(check('adapters', file('services/events/src/a.fixture.ts', [specifier]))).toEqual([]);
  });

  test('globals', () => {
    const uses = (text: string, path = 'services/events/src/a.ts') => check('globals', file(path, [], text));
    expect(uses('x;\nconst t = Date.now();')).toEqual(['services/events/src/a.ts:2 uses Date.now']);
    expect(uses('if (process.env.HOME) Math.random(); new Date()')).toHaveLength(2);
    expect(uses(' * Date.now is read elsewhere\n// process.env\nx(); // new Date() is not')).toEqual([]);
    expect(uses('Date.now()', 'packages/core/src/clock.ts')).toEqual([]);
    expect(uses('process.env', 'packages/core/src/clock.ts')).toHaveLength(1);
  });

  test('sizes', () => {
    expect(check('sizes', file('packages/core/src/a.ts', [], 'x\n'.repeat(401)))).toHaveLength(2);
    expect(check('sizes', file('packages/core/src/a.ts', [], 'x\n'.repeat(120)))).toEqual([]);
  });

  test('names', () => {
    expect(check('names', file('packages/core/src/string-utils.ts'))).toHaveLength(1);
    expect(check('names', file('packages/core/src/utilization.ts'))).toEqual([]);
  });
});
