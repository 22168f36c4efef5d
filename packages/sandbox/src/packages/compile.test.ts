import { once } from 'node:events';
import { describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { createCompiler } from './compile.ts';
import type { Jailed } from './jail/jail.ts';
import { openJail, STRONGEST_JAILS, useCompiler } from './jail.fixture.ts';

describe.each(STRONGEST_JAILS)('compilation in jail %s', (name) => {
  const { jail, compile, refusal } = useCompiler(name);

  describe('code', () => {
    test.each([
      ['ES modules', 'export default { name: "x" }', 'esm'],
      ['CommonJS', 'module.exports = { name: "x" }', 'cjs'],
      ['CommonJS that requires', 'const fs = require("fs"); exports.name = fs', 'cjs'],
      [
        'TypeScript',
        'interface A { a: string }\nexport default { name: "x" } satisfies { name: string }',
        'esm',
      ],
    ])('%s is compiled to its module format', async (_name, code, format) => {
      expect((await compile({ code })).format).toBe(format);
    });

    test('with decorators and accessors, which Node.js cannot parse, is lowered', async () => {
      const body = 'const d = (value) => value; class A { @d m() {} @d accessor n = 1; }';
      const { code } = await compile({ code: `${body} export default { name: new A().n };` });
      expect(() => new Function(code.replace(/export *{[^}]*};?/, ''))).not.toThrow();
    });

    test.each([
      ['has a source map', 1000, true],
      ['of megabytes has none, which would be longer', 1.2e6, false],
    ])('%s', async (_name, characters, hasMap) => {
      const line = 'export const a = (x) => x?.y;\n';
      const modules = { 'https://example.com/b.mjs': `${line}// ${'x'.repeat(characters)}` };
      const { code } = await compile({
        code: `export * from './b.mjs';`,
        url: 'https://example.com/a.mjs',
        modules,
      });
      expect(code.includes('sourceMappingURL=')).toBe(hasMap);
    });

    test('that does not parse is refused with the position', async () => {
      expect(await refusal('export default {\n  name: "x",\n  run() { if ( }\n}')).toMatch(
        /^400 invalid_component: .*line 3, column \d+/,
      );
    });

    test('in TypeScript that does not parse is refused with the position of the TypeScript error', async () => {
      expect(await refusal('interface A { a: string }\nconst b: A = ;\nexport default {}')).toMatch(/line 2/);
    });
  });

  describe('imports', () => {
    test('of packages become aliases of their version; builtins stay', async () => {
      const { code, packages } = await compile({
        code: `import axios from 'axios'; import old from 'lodash@4.17.20/get'; import { a } from '@scope/name@^1';
             import fs from 'fs'; import path from 'node:path'; export default { axios, old, a, fs, path }`,
      });
      expect(Object.values(packages).sort((a, b) => a.name.localeCompare(b.name))).toEqual([
        { name: '@scope/name', version: '^1' },
        { name: 'axios', version: 'latest' },
        { name: 'lodash', version: '4.17.20' },
      ]);
      for (const alias of Object.keys(packages)) expect(code).toContain(`"${alias}`);
      expect(code).toContain('"node:fs"');
      expect(code).not.toContain('lodash@');
    });

    test('of two versions of one package can be combined', async () => {
      const { packages } = await compile({
        code: `import a from 'ms@1'; import b from 'ms@2'; export default { a, b }`,
      });
      expect(Object.values(packages).map(({ version }) => version)).toEqual(['1', '2']);
    });

    test('by require() and import() are resolved as well', async () => {
      const { packages } = await compile({
        code: `const a = require('ms@1'); module.exports = { name: 'x', run: () => import('axios') }`,
      });
      expect(
        Object.values(packages)
          .map(({ name }) => name)
          .sort(),
      ).toEqual(['axios', 'ms']);
    });

    test.each([
      'file:///etc/passwd',
      '/etc/hostname',
      'https://example.com/x.js',
      'data:text/javascript,1',
      './other.js',
      '../../../etc/passwd',
      'git+ssh://git@github.com/a/b',
      'ms@file:../x',
      'ms@https://example.com/x.tgz',
      'ms@>=2 <3',
      'ms@1 - 2',
      'ms/../../../etc/passwd',
      'NO SUCH NAME',
    ])('of %s are refused', async (specifier) => {
      for (const code of [
        `import x from '${specifier}'; export default x`,
        `module.exports = require('${specifier}')`,
      ]) {
        expect(await refusal(code)).toMatch(/^400 invalid_component/);
      }
    });

    test('that are relative resolve only to modules of the origin', async () => {
      const modules = {
        'https://example.com/a/lib.mjs': `import data from './data.json'; export const value = data.value + 1;`,
        'https://example.com/a/data.json': '{"value": 41}',
      };
      const url = 'https://example.com/a/source.mjs';
      const { code } = await compile({
        code: `import { value } from './lib.mjs'; export default { name: 'x', value }`,
        modules,
        url,
      });
      expect(code).toContain('41');
      expect(await refusal(`import x from './gone.mjs'; export default x`, { modules, url })).toContain(
        './gone.mjs cannot be imported: there is no such module.',
      );
    });

    test('without extension, of a directory and with the extension of the compiled file find their module', async () => {
      const modules = {
        'folder:///app/app.app.ts': `import base from '../common'; const app: { base: object } = { base }; export default app;`,
        'folder:///common/index.mjs': `import app from '../app/app.app.js'; export default { get app() { return app }, mark: 'index' };`,
        'folder:///app/words.mts': `export const words: string[] = ['typed'];`,
        'folder:///app/data.json': '{"from": "json"}',
      };
      const url = 'folder:///app/sources/new/new.ts';
      const { code } = await compile({
        code: `import app from '../../app.app'; import { words } from '../../words.mjs';
               import data from '../../data.json' assert { type: 'json' };
               import type { Gone } from './types';
               import { AlsoGone } from './more-types';
               export default { name: 'x', app, words, data } as AlsoGone & Gone;`,
        modules: { ...modules, 'folder:///app/app.app.js': modules['folder:///app/app.app.ts'] },
        url,
      });
      for (const mark of ['index', 'typed', 'json']) expect(code).toContain(mark);
    });

    test('of a module by a bare specifier, and the range of a package that has none, are given beside the code', async () => {
      const { code, packages } = await compile({
        code: `import aws from '@pipedream/aws'; import axios from 'axios'; import ms from 'ms@2'; export default { aws, axios, ms }`,
        url: 'folder:///b/b.mjs',
        modules: { 'folder:///a/aws.app.mjs': `export default 'the app aws'` },
        imports: { '@pipedream/aws': 'folder:///a/aws.app.mjs' },
        dependencies: { axios: '^0.27.0', ms: '1' },
      });
      expect(code).toContain('the app aws');
      expect(Object.values(packages)).toEqual([
        { name: 'axios', version: '^0.27.0' },
        { name: 'ms', version: '2' },
      ]);
    });

    test('of @pipedream/types do not need a package', async () => {
      const { packages, code } = await compile({
        code: `import { defineSource } from '@pipedream/types'; export default defineSource({ name: 'x' })`,
      });
      expect(packages).toEqual({});
      expect(code).not.toContain('@pipedream/types"');
    });
  });

  test('an answer of the compiler is limited, not all answers of a process together', async () => {
    const answer = `process.stdin.on('data', (line) => {
      const code = 'x'.repeat(Number(JSON.parse(String(line)).code));
      process.stdout.write(JSON.stringify({ format: 'esm', code, packages: {} }) + '\\n');
    });`;
    await using opened = await openJail(name, { compileNative: answer, compileWasm: answer });
    const ask = (characters: number) =>
      opened.compiler.compile({ code: String(characters) }, 'u_1').then(
        ({ code }) => code.length,
        ({ status }) => status,
      );
    // Together they exceed the limit of one answer.
    for (let n = 0; n < 3; n += 1) expect(await ask(24e6)).toBe(24e6);
    expect(await ask(70e6)).toBe(400);
  }, 60_000);

  /**
   * A compiler, and the processes that it starts.
   * @param kills tells, by the number of earlier processes, whether a process is killed before it gets code
   */
  function observedCompiler(kills: (earlier: number) => boolean = () => false, { spawn } = jail.jail) {
    const started: Jailed[] = [];
    const compiler = createCompiler({
      ...jail.jail,
      spawn(program) {
        const jailed = spawn(program);
        if (kills(started.length)) jailed.child.kill('SIGKILL');
        started.push(jailed);
        return jailed;
      },
    });
    return { compiler, started };
  }

  test('a process compiles code of one owner only, and few processes stay', async () => {
    const { compiler, started } = observedCompiler();
    const running = () =>
      started.filter(({ child: { exitCode, signalCode } }) => (exitCode ?? signalCode) === null);
    const code = { code: 'export default { name: "x" }' };
    try {
      for (const owner of ['u_1', 'u_1', 'u_2', 'u_1', 'u_2']) await compiler.compile(code, owner);
      expect(started).toHaveLength(jail.jail.sharesCompilers ? 1 : 2);
      for (const owner of ['u_3', 'u_4', 'u_5', 'u_6']) await compiler.compile(code, owner);
      await eventually(() => running().length <= 4);
    } finally {
      await compiler.close();
    }
  });

  test('an idle process that the kernel has killed is replaced: the next code is not refused', async () => {
    const { compiler, started } = observedCompiler();
    const code = { code: 'export default { name: "x" }' };
    try {
      await compiler.compile(code, 'u_1');
      const [first] = started as [Jailed];
      const ended = once(first.child, 'close');
      await first.end();
      await ended;
      expect((await compiler.compile(code, 'u_1')).format).toBe('esm');
      expect(started).toHaveLength(2);
    } finally {
      await compiler.close();
    }
  });

  test('a process that dies once is replaced, and the code compiled', async () => {
    const { compiler, started } = observedCompiler((earlier) => earlier === 0);
    try {
      const { format } = await compiler.compile({ code: 'export default { name: "x" }' }, 'u_1');
      expect([format, started.length]).toEqual(['esm', 2]);
    } finally {
      await compiler.close();
    }
  });

  test('while every process dies, code is not at fault', async () => {
    const { compiler } = observedCompiler(() => true);
    try {
      await expect(compiler.compile({ code: 'export default {}' }, 'u_1')).rejects.toMatchObject({
        status: 503,
        message: 'The compiler does not work at the moment.',
      });
    } finally {
      await compiler.close();
    }
  });

  test('code at which each process dies is refused while the compiler works for other code, at once after a report', async () => {
    const mortal = `process.stdin.on('data', (line) => {
      const { code } = JSON.parse(String(line));
      if (code === 'fatal') process.stderr.write('fatal error: stack overflow');
      if (code !== '') process.exit(1);
      process.stdout.write(JSON.stringify({ format: 'esm', code, packages: {} }) + '\\n');
    });`;
    await using opened = await openJail(name, { compileNative: mortal, compileWasm: mortal });
    const { compiler, started } = observedCompiler(() => false, opened.jail);
    const refused = { status: 400, message: 'The code is too large or nested too deeply to be compiled.' };
    try {
      await expect(compiler.compile({ code: 'fatal' }, 'u_1')).rejects.toMatchObject(refused);
      expect(started).toHaveLength(1);
      await expect(compiler.compile({ code: 'deadly' }, 'u_1')).rejects.toMatchObject(refused);
      expect(started).toHaveLength(4);
    } finally {
      await compiler.close();
    }
  });
});
