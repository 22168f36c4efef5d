import { execFile } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { forSuite } from '@wellspring/testing/lifetimes';
import { ADMIN_KEY } from '@wellspring/testing/platform';
import { platform, usePlatform } from '@wellspring/testing/platform.fixture';
import { tempDir } from '@wellspring/testing/temp-dir';
import { folderOf, REGISTRY } from './folder.fixture.ts';

const IMPORT = fileURLToPath(new URL('./import-main.ts', import.meta.url));

usePlatform();
const folder = forSuite(() => folderOf(REGISTRY));

/** `pnpm run import`, with these variables. */
function runImport(...args: string[]): Promise<{ code: number; output: string }> {
  return runImportWith({ WELLSPRING_ADMIN_KEY: ADMIN_KEY }, ...args);
}

function runImportWith(
  variables: Record<string, string>,
  ...args: string[]
): Promise<{ code: number; output: string }> {
  const { port } = new URL(platform.adminUrl);
  const env = { PATH: process.env.PATH, WELLSPRING_ADMIN_PORT: port, ...variables };
  return new Promise((resolve) => {
    execFile(process.execPath, [IMPORT, ...args], { env }, (error, stdout, stderr) =>
      resolve({ code: error ? Number(error.code) : 0, output: stdout + stderr }),
    );
  });
}

test('a folder is published once; what was refused is reported by its reason', async () => {
  const first = await runImport(folder.path);
  expect(first.code).toBe(1);
  expect(first.output).toContain('3 published, 0 unchanged, 3 refused');
  expect(first.output).toMatch(
    /gone\.mjs cannot be imported: there is no such module\..*\n +broken\/sources\/missing/,
  );
  expect(first.output).toMatch(
    /needs a semantic version\. \(1\)\n +broken\/actions\/no-version\/no-version\.mjs/,
  );
  const second = await runImport(folder.path);
  expect(second.output).toContain('0 published, 3 unchanged, 3 refused');
}, 120_000);

test('definitions are those of the sources', async () => {
  const { configurable_props: props } = await platform.client.getRegistryComponent({
    key: 'chat-new-message',
  });
  expect(props).toEqual([
    { name: 'chat', type: 'app', app: 'chat' },
    { name: 'db', type: '$.service.db' },
    { name: 'timer', type: '$.interface.timer', default: { intervalSeconds: 900 } },
    { name: 'room', type: 'string', label: 'Room', description: 'Where it is said', options: true },
    { name: 'limit', type: 'integer', label: 'At most', default: 20, optional: true },
    { name: 'words', type: 'string[]', label: 'Words', options: ['a', 'b'] },
    { name: 'alert', type: 'alert', alertType: 'info', content: 'Hello' },
    { name: 'later', type: '$.inventedLater', label: 'Later' },
  ]);
  const send = await platform.client.getRegistryComponent({ key: 'chat-send' });
  expect(send.configurable_props).toMatchObject([
    { type: 'app', app: 'typed' },
    { label: 'Room' },
    { default: 'loud' },
  ]);
});

test('a published version never changes: changed code is refused until it has another version', async () => {
  const path = join(folder.path, 'old/old.app.js');
  await writeFile(path, `${REGISTRY['old/old.app.js']} // changed`);
  const changed = await runImport(folder.path);
  expect(changed.output).toContain('0 published, 2 unchanged, 4 refused');
  expect(changed.output).toMatch(/old-tick@0\.1\.0 is published already\. \(1\)\n +old\/old-tick\.js/);
  const text = REGISTRY['old/old-tick.js']!.replace('0.1.0', '0.2.0');
  await writeFile(join(folder.path, 'old/old-tick.js'), text);
  expect((await runImport(folder.path)).output).toContain('1 published, 2 unchanged, 3 refused');
  expect(await platform.client.getRegistryComponent({ key: 'old-tick' })).toMatchObject({ version: '0.2.0' });
}, 120_000);

test('wrong arguments print the usage and exit with 2', async () => {
  expect(await runImport()).toEqual({ code: 2, output: 'Usage: pnpm run import FOLDER\n' });
  expect((await runImport('/no/such/folder')).code).toBe(2);
});

test('the operator key is read from the data directory, in which nothing is written', async () => {
  const data = await tempDir();
  const path = join(data.path, 'credentials.json');
  const content = JSON.stringify({ url: 'https://events.example.com', api_key: 'x', admin_key: ADMIN_KEY });
  const variables = { WELLSPRING_DATA_DIR: data.path };
  const without = await runImportWith(variables, folder.path);
  expect(without.code).toBe(2);
  expect(without.output).toMatch(/no key of the operator API in .*: set WELLSPRING_DATA_DIR/);
  expect(await readdir(data.path)).toEqual([]);
  await writeFile(path, content);
  const withKey = await runImportWith(variables, folder.path);
  expect(withKey.output).toMatch(/3 published|3 unchanged/);
  expect(await readdir(data.path)).toEqual(['credentials.json']);
  expect(await readFile(path, 'utf8')).toBe(content);
  await data.remove();
}, 120_000);

test('the operator listener may have an IPv6 address', async () => {
  const variables = {
    WELLSPRING_ADMIN_HOST: '::1',
    WELLSPRING_ADMIN_PORT: '1',
    WELLSPRING_ADMIN_KEY: ADMIN_KEY,
  };
  const { code, output } = await runImportWith(variables, folder.path);
  expect([code, output]).toEqual([2, expect.stringContaining('The operator API does not answer')]);
});
