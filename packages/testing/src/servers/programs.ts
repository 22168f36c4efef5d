import { execFile, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import type { ServerName } from './server.ts';

const PYTHON = 'python3 -c "import ensurepip, venv"';

/**
 * Requirements of a server: file names in PATH, paths, or commands that must succeed; and the packages of Debian that
 * contain them.
 */
const PROGRAMS: Record<ServerName, { needs: readonly string[]; packages: readonly string[] }> = {
  rabbitmq: { needs: ['/usr/lib/rabbitmq/bin/rabbitmq-server', 'epmd'], packages: ['rabbitmq-server'] },
  redis: { needs: ['redis-server'], packages: ['redis-server'] },
  mongodb: { needs: [PYTHON], packages: ['python3-venv'] },
  s3: { needs: [PYTHON], packages: ['python3-venv'] },
};

const LOCK = '/tmp/wellspring-test-install.lock';
const INSTALL_MS = 10 * 60_000;

/**
 * Installs the programs of a server if they are missing, as root on Debian.
 * @returns undefined, or the reason why they are missing
 */
export async function ensurePrograms(name: ServerName): Promise<string | undefined> {
  const { needs, packages } = PROGRAMS[name];
  const lacking = () => needs.filter((program) => !isInstalled(program));
  if (lacking().length === 0) return undefined;
  const missing = `${lacking().join(' and ')} not installed`;
  if (!isInstalled('apt-get')) return missing;
  const asRoot = `as root: apt-get install ${packages.join(' ')}`;
  if (process.getuid?.() !== 0) return `${missing}; ${asRoot}`;
  process.stderr.write(`Installing ${packages.join(' ')} for the tests…\n`);
  const failure = await install(packages);
  return lacking().length === 0 ? undefined : `${missing}, and they could not be installed:\n${failure}`;
}

function isInstalled(program: string): boolean {
  if (program.startsWith('/')) return existsSync(program);
  if (program.includes(' ')) return spawnSync('/bin/sh', ['-c', program]).status === 0;
  return (process.env.PATH ?? '').split(delimiter).some((directory) => existsSync(join(directory, program)));
}

/** Runs a command under a lock. @returns its output on failure */
async function install(packages: readonly string[]): Promise<string> {
  const script = `apt-get update && apt-get install -y --no-install-recommends ${packages.join(' ')}`;
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  try {
    await promisify(execFile)('flock', [LOCK, 'sh', '-c', script], { env, timeout: INSTALL_MS });
    return 'apt-get has installed something else';
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    return `${stdout}${stderr}`.trim().slice(-2_000) || String(error);
  }
}
