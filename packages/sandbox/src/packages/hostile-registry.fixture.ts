import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll } from '@jest/globals';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import type { JAILS } from './jail.fixture.ts';
import { openTestPackager, type TestPackager } from './packager.fixture.ts';
import { type Canary, openCanary, openRegistry, type TestRegistry } from './registry.fixture.ts';

export const SECRET = 'the key of the platform';
/** Credentials of the operator for the registry. */
export const TOKEN = 'token-of-the-operator';

/** A packager with a registry of the attacker, and targets of the attacker. */
export interface HostileRegistry {
  registry: TestRegistry;
  /** A server that must not get requests. */
  canary: Canary;
  /** A directory on the host: a package with SECRET in `secret.key`. */
  secrets: TempDir;
  packager: TestPackager;
}

/** Opens it for the tests of a describe block; the fields are set before the tests run. */
export function useHostileRegistry(jail: (typeof JAILS)[number]): HostileRegistry {
  const t = {} as HostileRegistry;
  beforeAll(async () => {
    t.registry = await openRegistry();
    t.canary = await openCanary();
    t.secrets = await tempDir();
    writeFileSync(join(t.secrets.path, 'secret.key'), SECRET);
    writeFileSync(join(t.secrets.path, 'package.json'), '{"name":"host","version":"1.0.0"}');
    t.packager = await openTestPackager(jail, {
      npm_config_registry: t.registry.url,
      [`npm_config_//${t.registry.url.slice(7)}:_authToken`]: TOKEN,
    });
  });
  afterAll(async () => {
    for (const one of [t.packager, t.secrets, t.canary, t.registry]) await one[Symbol.asyncDispose]();
  });
  return t;
}
