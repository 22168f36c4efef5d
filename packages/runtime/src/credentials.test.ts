import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { forEachTest } from '@wellspring/testing/lifetimes';
import { tempDir } from '@wellspring/testing/temp-dir';
import { readKeys } from './credentials.ts';

const dir = forEachTest(tempDir);

const config = () => ({
  dataDir: join(dir.path, 'data'),
  publicUrl: 'http://127.0.0.1:3000',
  apiKey: null as string | null,
  adminKey: null as string | null,
  secretKeys: null as string[] | null,
});
/** A start that succeeds. */
const start = () => {
  const keys = readKeys(config());
  keys.save();
  return keys;
};
const modeOf = (path: string) => statSync(path).mode & 0o777;

test('the first start makes keys that only their owner can read', () => {
  const { credentials, secretKeys, isNewApiKey, path } = start();
  expect(isNewApiKey).toBe(true);
  expect(credentials.api_key).toMatch(/^ws_[a-z2-7]{32}$/);
  expect(credentials.admin_key).not.toBe(credentials.api_key);
  expect(secretKeys[0]).toMatch(/^[a-z2-7]{64}$/);
  expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual(credentials);
  expect([
    modeOf(path),
    modeOf(join(dir.path, 'data', 'secret.key')),
    modeOf(join(dir.path, 'data')),
  ]).toEqual([0o600, 0o600, 0o700]);
});

test('later starts find the same keys, and write nothing', () => {
  const first = start();
  const { mtimeMs } = statSync(first.path);
  const second = start();
  expect(second).toEqual({ ...first, isNewApiKey: false, save: second.save });
  expect(statSync(first.path).mtimeMs).toBe(mtimeMs);
});

test('presets override stored credentials and are stored', () => {
  start();
  const preset = {
    ...config(),
    apiKey: 'preset-api-key-1234',
    adminKey: 'preset-admin-key-1',
    secretKeys: ['s'.repeat(32)],
  };
  const { credentials, secretKeys, isNewApiKey, save } = readKeys(preset);
  save();
  expect([credentials.api_key, credentials.admin_key]).toEqual(['preset-api-key-1234', 'preset-admin-key-1']);
  expect([secretKeys, isNewApiKey]).toEqual([['s'.repeat(32)], true]);
  expect(readKeys(config()).credentials.api_key).toBe('preset-api-key-1234');
});

test('a damaged file is not overwritten', () => {
  const { path } = start();
  writeFileSync(path, '{"api_key":');
  expect(() => readKeys(config())).toThrow('credentials.json is not valid JSON');
  expect(readFileSync(path, 'utf8')).toBe('{"api_key":');
});
