import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, linkSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ProcessDirectory } from '../process-directories.ts';
import { PRELOAD } from '../protocol.ts';
import { NICE } from '../scheduling.ts';
import { seccompFilter } from '../seccomp.ts';
import { provideLauncher } from './compile-launcher.ts';
import { directoriesOf, isLoader, ROOT, ROOT_COMMAND, rootFiles } from './root-files.ts';
import {
  CHILD_LIMITS,
  childEnvironment,
  nodeFlags,
  type Tier,
  type TierOptions,
  TierUnavailable,
} from './tier.ts';

/** The first ABI of Landlock that restricts signals and abstract unix sockets: Linux 6.12. */
const LANDLOCK_ABI = 6;
/** Of native/launcher.c. */
const EXIT_TMP_LIMIT = 122;
const MAX_TMP_DEPTH = 256;

/** @throws TierUnavailable if the kernel or the privileges do not suffice */
function checkLauncher(launcher: string): void {
  const needed = `The launcher needs to be started by root or to have capabilities: setcap cap_sys_chroot,cap_setuid,cap_setgid=ep ${launcher}; a container must not set no-new-privileges or drop these capabilities.`;
  let answer: string;
  try {
    answer = execFileSync(launcher, ['check'], { encoding: 'utf8', env: {}, timeout: 10_000 });
  } catch (error) {
    // The kernel refuses to execute a file with capabilities that the container has dropped.
    if ((error as { code?: string }).code === 'EPERM') throw new TierUnavailable(needed);
    throw new TierUnavailable(`The launcher does not start: ${(error as Error).message}`);
  }
  const [, abi, capable] = /^landlock (\d+) capable (\d)/.exec(answer) ?? [];
  if (Number(abi) < LANDLOCK_ABI) {
    throw new TierUnavailable(
      `The launcher needs Landlock with ABI ${LANDLOCK_ABI} (Linux 6.12 or newer with Landlock enabled); this kernel has ABI ${abi}.`,
    );
  }
  if (capable !== '1') throw new TierUnavailable(needed);
}

export interface LauncherOptions extends TierOptions {
  /** Directory of the compiled launcher. */
  cache: string;
}

/**
 * Tier B: a separate root (chroot into the process directory), a separate user id, Landlock, seccomp and kernel limits, set up by a
 * native program. It needs no namespaces, so plain `docker run` suffices.
 * @throws TierUnavailable if it does not work on this machine
 */
export function createLauncherTier(options: LauncherOptions): Tier {
  const { directory, readable, caFile, heapMb, cache } = options;
  const launcher = provideLauncher(cache);
  checkLauncher(launcher);
  // Hard links into process directories need the same file system and, without superuser rights, files of the platform's user.
  const files = rootFiles(options).map(({ source, target }) => ({
    source: readable.link(source),
    target,
  }));
  const directories = directoriesOf(files);
  const filter = join(directory, 'seccomp.bpf');
  writeFileSync(filter, seccompFilter(process.arch));
  const executables = files
    .map(({ target }) => target)
    .filter((path) => path === ROOT.node || isLoader(path));
  const { nofile, nproc, fsize, tmpBytes, tmpInodes } = CHILD_LIMITS;
  const constant = [
    `seccomp=${filter}`,
    `cwd=${ROOT.app}`,
    `nofile=${nofile}`,
    `nproc=${nproc}`,
    `fsize=${fsize}`,
    `tmp-bytes=${tmpBytes}`,
    `tmp-inodes=${tmpInodes}`,
    // A platform with a negative one is root and lowers the priority itself.
    ...(NICE > 0 ? [`nice=${NICE}`] : []),
    ...executables.map((path) => `exec=${path}`),
  ];
  const command = [ROOT.node, ...nodeFlags(heapMb), ...ROOT_COMMAND];

  /** Prepares the process directory as sandbox root. */
  function prepareRoot({ path, tmp, uid }: ProcessDirectory): void {
    chmodSync(path, 0o755);
    for (const name of directories) {
      mkdirSync(join(path, name), { recursive: true });
      chmodSync(join(path, name), 0o755);
    }
    for (const { source, target } of files) linkSync(source, join(path, target));
    // Without superuser rights, the owner cannot be changed; other users do not know the name of the process directory.
    if (process.getuid?.() === 0) chownSync(tmp, uid!, uid!);
    else chmodSync(tmp, 0o777);
  }

  return {
    name: 'launcher',
    visible: () => ({ app: ROOT.app, egress: ROOT.egress }),
    visiblePackages: undefined,
    relaysStops: true,
    endedFor: (exitCode) =>
      exitCode === EXIT_TMP_LIMIT
        ? `The code put more than ${tmpBytes / 1024 / 1024} MB, ${tmpInodes} files or ${MAX_TMP_DEPTH} levels of directories into its temporary directory.`
        : undefined,
    command(directory, { preload }) {
      if (directory.uid === undefined) {
        throw new TierUnavailable('The launcher needs user ids that this user namespace does not map.');
      }
      prepareRoot(directory);
      return {
        file: launcher,
        args: ['run', `root=${directory.path}`, `uid=${directory.uid}`, ...constant, '--', ...command].concat(
          preload ? [PRELOAD] : [],
        ),
        env: childEnvironment(ROOT.app, ROOT.tmp, caFile && ROOT.ca),
        cwd: '/',
        // On SIGTERM the launcher kills the child, which only the superuser may signal, and removes its files.
        killMethod: 'SIGTERM',
      };
    },
  };
}
