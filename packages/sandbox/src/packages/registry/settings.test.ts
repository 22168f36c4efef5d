import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { tempDir } from '@wellspring/testing/temp-dir';
import { readRegistrySettings } from './settings.ts';

const none = { npm_config_userconfig: '/dev/null', npm_config_globalconfig: '/dev/null' };

test('registries, scopes and credentials are read from .npmrc, with environment variables', async () => {
  await using home = await tempDir();
  writeFileSync(
    join(home.path, '.npmrc'),
    `registry=https://mirror.example.com/npm
; a comment
@acme:registry = "https://packages.example.com/acme/"
//packages.example.com/acme/:_authToken=\${ACME_TOKEN}
//mirror.example.com/npm/:username=reader
//mirror.example.com/npm/:_password=${Buffer.from('secret').toString('base64')}
fetch-retries=4
`,
  );
  const settings = readRegistrySettings({
    HOME: home.path,
    ACME_TOKEN: 'token',
    npm_config_globalconfig: '/dev/null',
  });
  expect(settings.registryOf('ms')).toBe('https://mirror.example.com/npm/');
  expect(settings.registryOf('@acme/tool')).toBe('https://packages.example.com/acme/');
  expect(settings.authorizationFor('https://packages.example.com/acme/@acme%2ftool')).toBe('Bearer token');
  expect(settings.authorizationFor('https://mirror.example.com/npm/ms')).toBe(
    `Basic ${Buffer.from('reader:secret').toString('base64')}`,
  );
  expect(settings.retries).toBe(4);
});

test('credentials are not sent to another host or another path', () => {
  const settings = readRegistrySettings({
    ...none,
    'npm_config_//packages.example.com/acme/:_authToken': 'token',
  });
  expect(settings.authorizationFor('https://packages.example.com/acme/x')).toBe('Bearer token');
  expect(settings.authorizationFor('https://packages.example.com/acme-evil/x')).toBeUndefined();
  expect(settings.authorizationFor('https://packages.example.com/')).toBeUndefined();
  expect(settings.authorizationFor('https://packages.example.com.evil.example/acme/x')).toBeUndefined();
});

test('variables override files, and variables of pnpm override those of npm', () => {
  const settings = readRegistrySettings({
    ...none,
    npm_config_registry: 'https://a.example.com',
    pnpm_config_registry: 'https://b.example.com',
    NPM_CONFIG_STRICT_SSL: 'false',
    HTTPS_PROXY: 'http://proxy.example.com:8080',
    NO_PROXY: 'b.example.com',
  });
  expect(settings.registryOf('ms')).toBe('https://b.example.com/');
  expect(settings.strictSsl).toBe(false);
  expect(settings.proxy).toEqual({ HTTPS_PROXY: 'http://proxy.example.com:8080', NO_PROXY: 'b.example.com' });
});

test('the minimum release age is a day unless it is set, in minutes or days', () => {
  const ageOf = (environment: Record<string, string>) => {
    const { minimumAgeMs, strictAge } = readRegistrySettings({ ...none, ...environment });
    return [minimumAgeMs / 3_600_000, strictAge];
  };
  expect(ageOf({})).toEqual([24, false]);
  expect(ageOf({ pnpm_config_minimum_release_age: '120' })).toEqual([2, true]);
  expect(ageOf({ npm_config_min_release_age: '3' })).toEqual([72, true]);
  expect(ageOf({ pnpm_config_minimum_release_age: '0' })).toEqual([0, true]);
});
