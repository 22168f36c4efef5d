import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const CACHE = fileURLToPath(new URL('../../../../node_modules/.cache/wellspring-servers/', import.meta.url));

const run = promisify(execFile);

/**
 * A directory that `make` fills, created once per `key`.
 * @throws Error when it cannot be created
 */
export async function made(
  name: string,
  key: string,
  make: (path: string) => Promise<void>,
): Promise<string> {
  const path = join(CACHE, `${name}-${createHash('sha256').update(key).digest('hex').slice(0, 12)}`);
  const exists = () =>
    access(path).then(
      () => true,
      () => false,
    );
  if (await exists()) return path;
  await mkdir(CACHE, { recursive: true });
  const unfinished = await mkdtemp(`${path}.`);
  try {
    await make(unfinished);
    // Another test run may have been faster.
    await rename(unfinished, path).catch(async (error) => {
      if (!(await exists())) throw error;
    });
  } finally {
    await rm(unfinished, { recursive: true, force: true });
  }
  return path;
}

/** Python in a virtual environment with these packages, such as `moto[server]==5.2.5`. Returns its path. */
export async function pythonWith(name: string, packages: readonly string[]): Promise<string> {
  const path = await made(name, packages.join(), async (directory) => {
    await run('python3', ['-m', 'venv', directory]);
    await run(join(directory, 'bin/python'), ['-m', 'pip', 'install', '-q', ...packages]);
  });
  return join(path, 'bin/python');
}
