import { expect, test } from '@jest/globals';
import { openComponentFolder } from './component-folder.ts';
import { folderOf, REGISTRY } from './folder.fixture.ts';

test('components are found by the layout of a registry, or by key and version', async () => {
  await using directory = await folderOf(REGISTRY);
  const { paths } = await openComponentFolder(directory.path);
  expect(paths).toEqual([
    'broken/actions/no-version/no-version.mjs',
    'broken/sources/missing/missing.mjs',
    'broken/sources/syntax/syntax.mjs',
    'chat/actions/send/send.ts',
    'chat/sources/new-message/new-message.mjs',
    'old/old-tick.js',
  ]);
});

test('a component may be written in one line', async () => {
  const line =
    'export default { key: "short-one", name: "Short", version: "0.0.1", type: "source", run() {} };';
  await using directory = await folderOf({
    'short/one.mjs': line,
    'short/two.mjs': 'export default { a: 1 };',
  });
  expect((await openComponentFolder(directory.path)).paths).toEqual(['short/one.mjs']);
});

test('a component comes with its modules, and no others', async () => {
  await using directory = await folderOf(REGISTRY);
  const { read } = await openComponentFolder(directory.path);
  const source = await read('chat/sources/new-message/new-message.mjs');
  expect(source).toMatchObject({ component_path: 'chat/sources/new-message/new-message.mjs', imports: {} });
  expect(Object.keys(source.modules ?? {}).sort()).toEqual([
    'chat/chat.app.mjs',
    'chat/common/constants.mjs',
    'chat/sources/common/base.mjs',
    'chat/sources/new-message/test-event.mjs',
    'chat/sources/new-message/words.json',
  ]);
});

test('a package of the folder is imported from it, others in the range of the nearest package.json', async () => {
  await using directory = await folderOf({
    ...REGISTRY,
    'chat/lib/words.mjs':
      'import ms from "ms"; import pinned from "lodash@4.17.20/get"; import other from "other"; export default 1;',
    'chat/actions/words/words.mjs': `import words from "../../lib/words.mjs"; import typed from "@apps/typed";
      export default { key: "chat-words", version: "0.0.1", typed };`,
  });
  const { read } = await openComponentFolder(directory.path);
  const { imports, dependencies, modules } = await read('chat/actions/words/words.mjs');
  expect(imports).toEqual({ '@apps/typed': 'typed/app/typed.app.ts' });
  expect(dependencies).toEqual({ ms: '^2.0.0' });
  expect(Object.keys(modules ?? {}).sort()).toEqual(['chat/lib/words.mjs', 'typed/app/typed.app.ts']);
});

test('a path that is not a folder is an error that names it', async () => {
  await expect(openComponentFolder('/no/such/folder')).rejects.toThrow('/no/such/folder');
});
