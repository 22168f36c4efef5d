import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

export interface Keeper {
  /** Where it is asked; see keeper.ts. */
  url: string;
  child: ChildProcess;
  /** Ends it and its servers, and resolves when they are gone. */
  end(): Promise<void>;
}

/** Starts the process that keeps the servers of a run. It ends with this one at the latest. */
export async function startKeeper(env: NodeJS.ProcessEnv = process.env): Promise<Keeper> {
  const path = fileURLToPath(new URL('keeper.ts', import.meta.url));
  const child = spawn(process.execPath, [path], { env, stdio: ['pipe', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const [line] = await Promise.race([
    once(child.stdout, 'data'),
    exited.then(([code]) => {
      throw new Error(`the keeper of the test servers has ended with ${code}`);
    }),
  ]);
  return {
    url: `http://127.0.0.1:${Number(String(line))}`,
    child,
    async end() {
      child.stdin.end();
      await exited;
    },
  };
}
