import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, chownSync, linkSync, mkdirSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { lowerPriority, NICE } from '../../scheduling.ts';
import { seccompFilter } from '../../seccomp.ts';
import { cleanRoot } from '../../tiers/launcher-leftovers.ts';
import { directoriesOf, isLoader } from '../../tiers/root-files.ts';
import { JAIL_NODE_FLAGS, JAILED, jailBinaries, libraries } from './binaries.ts';
import {
  JAIL_LIMITS,
  type Jail,
  type JailChoice,
  type JailOptions,
  type JailProgram,
  withLimits,
} from './jail.ts';
import { endProcessesOf } from './user-processes.ts';

/** The only directory that the launcher makes writable. */
const WORK = '/tmp';
const EXIT_TMP_LIMIT = 122;

/**
 * A jail of the launcher: a separate root (chroot) with the programs and their libraries, a separate user id,
 * Landlock, seccomp. The compiler has no network; the package manager may open TCP connections to the port of the
 * gateway. The user id is reused after all processes of this user have ended.
 */
export function createLauncherJail(
  { launcher, userIds }: Extract<JailChoice, { name: 'launcher' }>,
  { programs, directory, gateway, readable }: JailOptions,
): Jail {
  const free = [...userIds];
  const binaries = Object.entries(jailBinaries());
  const paths = [...new Set(binaries.flatMap(([, source]) => libraries(source)))];
  const files = [...binaries, ...paths.map((path) => [path, path] as const)].map(([target, source]) => ({
    target,
    source: readable.link(source),
  }));
  const directories = directoriesOf(files);
  const loaders = paths.filter(isLoader);

  function filterFor(program: JailProgram): string {
    const path = join(directory, `${program}.bpf`);
    writeFileSync(path, seccompFilter(process.arch, program));
    return path;
  }
  const kinds = {
    compile: {
      program: readable.link(programs.compileNative),
      options: [`seccomp=${filterFor('compile')}`, `exec=${JAILED.compiler}`],
    },
    install: {
      program: readable.link(programs.install),
      options: [
        `seccomp=${filterFor('install')}`,
        `exec=${JAILED.packageManager}`,
        ...(gateway.port === undefined ? [] : [`tcp-connect=${gateway.port}`]),
      ],
    },
  };
  const { diskBytes, inodes, openFiles, threads } = JAIL_LIMITS;
  const constant = [
    `cwd=${WORK}`,
    `nofile=${openFiles}`,
    `nproc=${threads}`,
    `fsize=${diskBytes}`,
    `tmp-bytes=${diskBytes}`,
    `tmp-inodes=${inodes}`,
    'forks=1',
    ...(NICE > 0 ? [`nice=${NICE}`] : []),
    // The launcher refuses to start after this process has ended, since the user id may be reused then.
    `parent=${process.pid}`,
    ...[JAILED.node, ...loaders].map((path) => `exec=${path}`),
  ];

  function prepareRoot(root: string, program: string, uid: number): void {
    for (const path of ['', ...directories, WORK]) {
      mkdirSync(join(root, path), { recursive: true });
      chmodSync(join(root, path), 0o755);
    }
    for (const { source, target } of files) linkSync(source, join(root, target));
    linkSync(program, join(root, JAILED.program));
    const work = join(root, WORK);
    // Without superuser rights, the owner cannot be changed; other users do not know the name of the sandbox root.
    if (process.getuid?.() === 0) {
      chmodSync(work, 0o700);
      chownSync(work, uid, uid);
    } else chmodSync(work, 0o777);
  }

  return {
    name: 'launcher',
    sharesCompilers: false,
    spawn(program) {
      const uid = free.shift();
      if (uid === undefined) throw new Error('All user ids for the jail of the packager are in use.');
      const root = join(directory, randomBytes(12).toString('hex'));
      const kind = kinds[program];
      prepareRoot(root, kind.program, uid);
      const [file, args] = withLimits(program, [
        launcher,
        'run',
        `root=${root}`,
        `uid=${uid}`,
        ...constant,
        ...kind.options,
        '--',
        ...[JAILED.node, ...JAIL_NODE_FLAGS, JAILED.program],
      ]);
      const child = spawn(file, args, {
        detached: true,
        env: { ESBUILD_BINARY_PATH: JAILED.compiler, HOME: WORK, TMPDIR: WORK },
        cwd: '/',
        stdio: ['pipe', 'pipe', 'pipe'],
      });
      lowerPriority(child.pid);
      const removed = once(child, 'exit')
        .catch(() => {})
        // The launcher ends after its child processes, unless it was killed.
        .then(() => endProcessesOf([uid], launcher))
        .then(() => cleanRoot(root, launcher))
        .then(() => rm(root, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 }))
        // Reusing the id gives access to files and processes of the previous program, so those have to be gone.
        .then(() => void free.push(uid))
        .catch(() => {});
      return {
        child,
        view: {
          directory: WORK,
          packageManager: JAILED.packageManager,
          gateway: gateway.port === undefined ? { socket: gateway.socket } : { port: gateway.port },
          limits: undefined,
        },
        isFull: () => child.exitCode === EXIT_TMP_LIMIT,
        async end() {
          child.kill('SIGTERM');
          await removed;
        },
      };
    },
  };
}
