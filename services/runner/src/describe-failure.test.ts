import { expect, test } from '@jest/globals';
import { CALLS } from '@wellspring/contract/calls';
import { OWNER } from '@wellspring/testing/rows';
import { describeFailure } from './describe-failure.ts';
import { usePlatform } from './platform.fixture.ts';

const t = usePlatform();

test.each([
  ['https://example.com/app', 'https://example.com/app/lib/read.mjs?v=1'],
  ['folder:///app', 'app/lib/read.mjs?v=1'],
])('the place in a module of %s is that of the module', async (base, named) => {
  const code = {
    code: `import { read } from './lib/read.mjs?v=1'; export default { name: 'x', value: read(), run() {} };`,
    url: `${base}/source.mjs`,
    modules: { [`${base}/lib/read.mjs?v=1`]: 'export const read = () =>\n  null.value;' },
  };
  const prepared = t.call.request(CALLS.prepare, { ...code, owner_id: OWNER }, { deadlineMs: 30_000 });
  await expect(prepared).rejects.toMatchObject({
    message: `The code failed when it was loaded: TypeError: Cannot read properties of null (reading 'value') (${named}:2:8)`,
  });
});

const NOT_BUILT = '(scripts of packages do not run, so packages that need a build script cannot be used)';

test('a native addon that was not built is explained when the code is loaded', async () => {
  const code = `import { createRequire } from 'node:module';
    const addon = createRequire(import.meta.url)('./build/Release/canvas.node');
    export default { name: 'x', run() {} };`;
  await expect(t.prepare(code)).rejects.toMatchObject({
    message: expect.stringMatching(
      /^The code failed .*canvas\.node'.* \(component\.js:2:\d+\) \(scripts of/s,
    ),
  });
});

test.each([
  "Cannot find module '../build/Release/canvas.node'\nRequire stack:\n- /app/node_modules/canvas/lib/bindings.js",
  'Could not locate the bindings file. Tried:\n → /app/node_modules/a/build/a.node',
  '/app/node_modules/a/a.node: invalid ELF header',
  'No native build was found for platform=linux arch=x64 runtime=node abi=137',
])('a missing native addon is explained: %j', (message) => {
  expect(describeFailure({ name: 'Error', message, stack: '' })).toBe(`${message} ${NOT_BUILT}`);
});

test.each([
  ['without a stack', { stack: '' }, 'no'],
  ['without a message', { message: '', stack: '' }, 'TypeError'],
  [
    'in a package',
    { stack: 'TypeError: no\n    at f (/app/node_modules/a/a.js:1:2)\n    at /app/component.js:3:4' },
    'no (component.js:3:4)',
  ],
  ['with a cause of its own class', { cause: '[E: low] {\n  code: 1\n}', stack: '' }, 'no ([E: low])'],
  ['with the causes on one line', { cause: "[ 'a', 'b' ]", stack: '' }, "no ([ 'a', 'b' ])"],
  [
    'with several causes',
    {
      cause: '[\n  Error: a\n      at f (/app/component.js:1:1),\n  [E: b] {\n    code: 1\n  }\n]',
      stack: '',
    },
    'no (Error: a; [E: b])',
  ],
])('an error %s is described', (_, fields, text) => {
  expect(describeFailure({ name: 'TypeError', message: 'no', ...fields })).toBe(text);
});

test('a long stack without a place, and a long cause, are described', () => {
  const [stack, cause] = ['/app/'.repeat(3_300), `[\n${'  x'.repeat(2_700)}`];
  const text = describeFailure({ name: 'E', message: 'no', stack, cause });
  expect(text).toBe(`no (${cause.slice(2).trim()})`);
});
