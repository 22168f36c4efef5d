import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { relativeImports } from './imports.ts';

describe('relativeImports', () => {
  test.each([
    ['a default import', 'import common from "../common/common.mjs";', ['../common/common.mjs']],
    ['named imports over lines', "import {\n  a,\n  b as c,\n} from './words.mjs'", ['./words.mjs']],
    ['a namespace', 'import * as x from "./x.mjs"', ['./x.mjs']],
    ['only for its effects', 'import "./effects.mjs";', ['./effects.mjs']],
    ['minified', 'import{a}from"./a.mjs";export*from"./b.mjs"', ['./a.mjs', './b.mjs']],
    [
      'a re-export',
      'export { default } from "./base.mjs"; export * as y from "./y.mjs"',
      ['./base.mjs', './y.mjs'],
    ],
    ['a dynamic import', 'const x = await import("./later.mjs");', ['./later.mjs']],
    ['require', 'const { a } = require( "./lib/a.js" );', ['./lib/a.js']],
    ['import attributes', 'import data from "./data.json" with { type: "json" };', ['./data.json']],
    ['each once', 'import a from "./a.mjs"; import { b } from "./a.mjs";', ['./a.mjs']],
    ['behind a regular expression', 'const q = /["\'`/[/]]/;\nimport a from "./a.mjs";', ['./a.mjs']],
    ['behind a division', 'const h = (a + b) / 2; const g = h / 3;\nimport a from "./a.mjs";', ['./a.mjs']],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is code
    ['behind a template', 'const s = `x ${y} \\` "`;\nimport a from "./a.mjs";', ['./a.mjs']],
    ['a default import named type', 'import type from "./type.mjs"', ['./type.mjs']],
    ['a default import named type and more', 'import type, { a } from "./type.mjs"', ['./type.mjs']],
    ['a value beside types', 'import { type T, value } from "./both.ts"', ['./both.ts']],
  ])('finds %s', async (_what, code, expected) => {
    expect(await relativeImports(code)).toEqual(expected);
  });

  test.each([
    ['packages and builtins', 'import axios from "axios"; import fs from "node:fs"; require("got@13")'],
    ['addresses', 'import x from "https://example.com/x.mjs"; import y from "//example.com/y.mjs"'],
    ['a line comment', '// import a from "./a.mjs"'],
    ['a block comment', '/* import a from "./a.mjs"\n import "./b.mjs" */'],
    ['a string', `const help = 'import a from "./a.mjs"';`],
    ['a template', 'const help = `import a from "./a.mjs"`;'],
    ['a string that merely looks like a path', 'const path = "./a.mjs"; open("./b.mjs");'],
    ['types alone', 'import type { T } from "./types.ts"; export type * from "./more.ts";'],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is code
    ['a computed path', 'await import(`./${name}.mjs`); require("./" + name)'],
  ])('leaves out %s', async (_what, code) => {
    expect(await relativeImports(code)).toEqual([]);
  });

  test('gives an answer for any text', async () => {
    const part = fc.constantFrom(
      'import',
      ' from ',
      '"./a"',
      "'",
      '"',
      '`',
      '/',
      '/*',
      '*/',
      '\\',
      '\n',
      '${',
      '[',
      'x',
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(part).map((parts) => parts.join('')),
        async (code) => {
          for (const specifier of await relativeImports(code)) expect(code).toContain(specifier);
        },
      ),
    );
  });

  test.each(['\\`', '\\"', '=/[', '/*', "'"])('is not slowed down by a megabyte of %s', async (piece) => {
    const begun = performance.now();
    await relativeImports(piece.repeat(1_000_000 / piece.length));
    expect(performance.now() - begun).toBeLessThan(5000);
  });

  test.each([';', 'a ', '€', '"";'])('lets other work go on during megabytes of %s', async (piece) => {
    let turns = 0;
    const turn = () => {
      turns += 1;
      timer = setImmediate(turn);
    };
    let timer = setImmediate(turn);
    await relativeImports(piece.repeat(4_000_000 / piece.length));
    clearImmediate(timer);
    expect(turns).toBeGreaterThan(10);
  });
});
