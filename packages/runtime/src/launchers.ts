import { readFileSync } from 'node:fs';

/** The process by which this one was started, and so on: pnpm, and npx with its shell. */
export interface Launchers {
  /** Whether all of them still run. */
  alive(): boolean;
}

interface Process {
  pid: number;
  parent: number;
  /** Arguments, or the title that the process gave itself, in words. */
  words: string[];
}

/**
 * What `pnpm start` and `npx pnpm start` have put between this process and the one that called them; undefined: it was not
 * started by the script `start`. The caller itself, e.g. a shell, does not count: it may end before.
 */
export function findLaunchers(startedBy: string | undefined): Launchers | undefined {
  if (startedBy !== 'start') return undefined;
  /** Pairs of a process and its parent; another parent means that the former one is gone. */
  const links: [pid: number, parent: number][] = [[process.pid, process.ppid]];
  for (let one = look(process.ppid); one && isPackageManager(one); ) {
    const parent = look(one.parent);
    const shell = parent && isShell(parent) ? parent : undefined;
    const outer = shell ? look(shell.parent) : parent;
    if (!outer || !isNpmExec(outer)) break;
    links.push([one.pid, one.parent]);
    if (shell) links.push([shell.pid, shell.parent]);
    one = outer;
  }
  return {
    alive() {
      try {
        return links.every(
          ([pid, parent]) => (pid === process.pid ? process.ppid : look(pid)?.parent) === parent,
        );
      } catch {
        // Too many open files.
        return true;
      }
    },
  };
}

/** Undefined for an unknown process, or on a system without `/proc`. */
function look(pid: number): Process | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name, in parentheses, may contain anything.
    const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
    const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      .split(/[\0 ]+/)
      .filter((word) => word !== '');
    return { pid, parent, words };
  } catch (error) {
    if (!GONE.has((error as NodeJS.ErrnoException).code ?? '')) throw error;
    return undefined;
  }
}

/** ESRCH: it ended while it was read. */
const GONE = new Set(['ENOENT', 'ESRCH']);

const base = (word = '') => word.slice(word.lastIndexOf('/') + 1);
const PACKAGE_MANAGER = /^(npm|npx|pnpm|pnpx)(-cli)?(\.[cm]?js)?$/;
const isPackageManager = ({ words }: Process) =>
  words.slice(0, 2).some((word) => PACKAGE_MANAGER.test(base(word)));
const isShell = ({ words }: Process) => /^(da|ba|z)?sh$/.test(base(words[0])) && words[1] === '-c';
const isNpmExec = (one: Process) =>
  isPackageManager(one) &&
  one.words.some((word) => /^(exec|x|npx)$/.test(base(word).replace(/-cli.*|\..*/, '')));
