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

/** Resident bytes of a process and all below it. */
export function residentBytes(root: number): number {
  const parents = new Map<number, number>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]));
    } catch {
      // It ended meanwhile.
    }
  }
  let sum = 0;
  for (const pid of parents.keys()) {
    let above: number | undefined = pid;
    while (above !== undefined && above !== root) above = parents.get(above);
    if (above !== root) continue;
    try {
      sum += Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]) * 4096;
    } catch {
      // It ended meanwhile.
    }
  }
  return sum;
}
