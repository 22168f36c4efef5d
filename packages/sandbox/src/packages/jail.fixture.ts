import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@wellspring/testing/temp-dir';
import { createReadableFiles } from '../readable-files.ts';
import { findBubblewrap } from '../tiers/bubblewrap.ts';
import { type Compiler, createCompiler } from './compile.ts';
import { createBubblewrapJail } from './jail/bubblewrap.ts';
import type { Jail, JailOptions, JailPrograms } from './jail/jail.ts';
import { createPlainJail } from './jail/none.ts';
import { writeJailPrograms } from './jail/programs.ts';

/** Kinds of jails that this machine has. */
export const JAILS: readonly Jail['name'][] =
  findBubblewrap() === undefined ? ['none'] : ['bubblewrap', 'none'];

/** A jail for tests, with what it needs in a directory of its own. */
export interface TestJail extends AsyncDisposable {
  jail: Jail;
  compiler: Compiler;
  gatewaySocket: string;
}

/** @param sources programs that run in the jail instead of the real ones */
export async function openJail(name: Jail['name'], sources: Partial<JailPrograms> = {}): Promise<TestJail> {
  const directory = await tempDir();
  chmodSync(directory.path, 0o711);
  const gatewaySocket = join(directory.path, 'gateway', 's');
  mkdirSync(join(directory.path, 'gateway'));
  const programs = await writeJailPrograms(directory.path);
  for (const [key, source] of Object.entries(sources))
    writeFileSync(programs[key as keyof JailPrograms], source);
  const options: JailOptions = {
    programs,
    directory: directory.path,
    gatewaySocket,
    user: process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : undefined,
    readable: createReadableFiles(directory.path).provide,
  };
  const jail =
    name === 'none' ? createPlainJail(options) : createBubblewrapJail(findBubblewrap() ?? '', options);
  const compiler = createCompiler(jail);
  return {
    jail,
    compiler,
    gatewaySocket,
    async [Symbol.asyncDispose]() {
      await compiler.close();
      await directory.remove();
    },
  };
}
