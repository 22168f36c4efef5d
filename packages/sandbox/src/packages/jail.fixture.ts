import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import type { ComponentCode } from '@wellspring/contract/definition';
import { forSuite } from '@wellspring/testing/lifetimes';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import { createReadableFiles } from '../readable-files.ts';
import { KERNEL_TIERS, TIERS } from '../sandbox.fixture.ts';
import { createUserIds, type UserIds } from '../user-ids.ts';
import { type Compiler, createCompiler } from './compile.ts';
import { jailFor } from './jail/choose.ts';
import { createJail } from './jail/create.ts';
import type { Jail, JailOptions, JailPrograms, JailSource } from './jail/jail.ts';
import { writeJailPrograms } from './jail/programs.ts';

// An installation takes seconds, on a loaded machine more than ten.
jest.setTimeout(120_000);

/** Kinds of jails that this machine supports. */
export const JAILS: readonly Jail['name'][] = TIERS;

/** The jails that isolate; if there are no such jails, the one that does not. */
export const STRONGEST_JAILS: readonly Jail['name'][] = KERNEL_TIERS.length > 0 ? KERNEL_TIERS : JAILS;

/** User of programs that a platform as root starts. */
export const UNPRIVILEGED = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : undefined;

/** Settings of npm of nobody, so that only those of a test apply. */
export const NPM_DEFAULTS = {
  npm_config_userconfig: '/dev/null',
  npm_config_globalconfig: '/dev/null',
  npm_config_fetch_retries: '0',
};

/** A new temporary directory that other users may enter. */
export async function openDirectory(): Promise<TempDir> {
  const directory = await tempDir();
  chmodSync(directory.path, 0o711);
  return directory;
}

/** @param cache directory of the compiled launcher */
export const chooseJail = (
  name: Jail['name'],
  cache: string,
  userIds: UserIds | undefined = createUserIds(),
): JailSource => jailFor(name, cache, userIds);

/** A jail for tests, with its files in a temporary directory. */
export interface TestJail extends AsyncDisposable {
  jail: Jail;
  compiler: Compiler;
  gatewaySocket: string;
}

/**
 * @param sources programs for the jail instead of the real ones
 * @param gatewayPort port of the gateway's substitute on 127.0.0.1
 */
export async function openJail(
  name: Jail['name'],
  sources: Partial<JailPrograms> = {},
  gatewayPort?: number,
): Promise<TestJail> {
  const directory = await openDirectory();
  const gatewaySocket = join(directory.path, 'gateway', 's');
  mkdirSync(join(directory.path, 'gateway'));
  const programs = await writeJailPrograms(directory.path);
  for (const [key, source] of Object.entries(sources))
    writeFileSync(programs[key as keyof JailPrograms], source);
  const options: JailOptions = {
    programs,
    directory: directory.path,
    gateway: { socket: gatewaySocket, ...(gatewayPort === undefined ? {} : { port: gatewayPort }) },
    user: UNPRIVILEGED,
    readable: createReadableFiles(directory.path),
  };
  const lease = chooseJail(name, join(directory.path, 'cache'))();
  const jail = createJail(lease.choice, options);
  const compiler = createCompiler(jail);
  return {
    jail,
    compiler,
    gatewaySocket,
    async [Symbol.asyncDispose]() {
      await compiler.close();
      await lease.end(directory.path);
    },
  };
}

/** A jail for a suite, and its compiler. */
export function useCompiler(name: Jail['name']) {
  const jail = forSuite(() => openJail(name));
  const compile = (code: ComponentCode) => jail.compiler.compile(code, 'u_test');
  return {
    jail,
    compile,
    /** @returns `compiled`, or the error as `status code: message` */
    refusal: (code: string, more: object = {}) =>
      compile({ code, ...more }).then(
        () => 'compiled',
        ({ status, code, message }) => `${status} ${code}: ${message}`,
      ),
  };
}
