import { fork } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));

/** Starts a module of this folder; resolves with the port that it listens on. */
export async function startModule(
  name: string,
  args: string[],
  onMessage: (message: never) => void = () => {},
) {
  const child = fork(path(name), args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const port = await new Promise<number>((resolve, reject) => {
    child.once('exit', () => reject(new Error(`${name} ended`)));
    child.on('message', (message: { port?: number }) => {
      if (message.port !== undefined) resolve(message.port);
      else onMessage(message as never);
    });
  });
  return { child, port };
}

/**
 * Memory of a process and of all below it, in bytes, where a page that n of them share counts as 1/n for each: the
 * sandboxes all map the same program. Where that may not be read: the resident size.
 */
export function memoryOf(root: number): number {
  const parents = new Map<number, number>();
  for (const name of readdirSync('/proc')) {
    const stat = /^\d+$/.test(name) ? readIfThere(`/proc/${name}/stat`) : undefined;
    if (stat) parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]));
  }
  let sum = 0;
  for (const pid of parents.keys()) {
    let above: number | undefined = pid;
    while (above !== undefined && above !== root) above = parents.get(above);
    if (above === root) sum += proportional(pid) ?? resident(pid);
  }
  return sum;
}

function proportional(pid: number): number | undefined {
  const kilobytes = /^Pss:\s+(\d+) kB/m.exec(readIfThere(`/proc/${pid}/smaps_rollup`) ?? '')?.[1];
  return kilobytes === undefined ? undefined : Number(kilobytes) * 1024;
}

function resident(pid: number): number {
  return Number((readIfThere(`/proc/${pid}/statm`) ?? '0 0').split(' ')[1]) * 4096;
}

/** undefined: it ended meanwhile, or is not ours to read. */
function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
