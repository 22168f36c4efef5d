import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { argumentsOf, descendants } from '../processes.fixture.ts';
import { type TestSandbox, values } from '../sandbox.fixture.ts';

/** Paths of the process directory of a running process on the host. */
export interface LiveProcess {
  path: string;
  /** Path of the code. */
  code: string;
  egress: string;
  tmp: string;
}

const list = (directory: string): string[] => {
  try {
    return readdirSync(directory);
  } catch {
    // It was removed, or is not a directory.
    return [];
  }
};
const textOf = (file: string): string => {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    // It does not exist, or was removed.
    return '';
  }
};

/** Starts a process with unique code, and finds its process directory by it. */
export async function liveProcess(sandbox: TestSandbox, name: string): Promise<LiveProcess> {
  const mark = randomUUID();
  const run = await sandbox.run(`return ${JSON.stringify(mark)}`, { process: name });
  if (values(run)[0] !== mark) throw new Error(`The process ${name} does not run.`);
  for (const base of list(tmpdir()).filter((entry) => entry.startsWith('wellspring-')))
    for (const id of list(join(tmpdir(), base))) {
      const path = join(tmpdir(), base, id);
      const code = join(path, 'app', 'component.mjs');
      if (textOf(code).includes(mark))
        return { path, code, egress: join(path, 'run', 'eg'), tmp: join(path, 'tmp') };
    }
  throw new Error(`The process directory of ${name} was not found.`);
}

/** Host id of the descendant process whose code has set this `process.title`. */
export function pidOfTitle(title: string): number {
  const found = descendants(process.pid).find((pid) => argumentsOf(pid)[0] === title);
  if (found === undefined) throw new Error(`The host sees no process with the title ${title}.`);
  return found;
}

/** TCP ports with a listener in the network namespace of a process. */
export const portsListenedTo = (pid: number): number[] =>
  ['tcp', 'tcp6'].flatMap((protocol) =>
    readFileSync(`/proc/${pid}/net/${protocol}`, 'utf8')
      .split('\n')
      .slice(1)
      .flatMap((line) => {
        const [, local, , state] = line.trim().split(/\s+/);
        return state === '0A' ? [Number.parseInt(local!.split(':')[1]!, 16)] : [];
      }),
  );
