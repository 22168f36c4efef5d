import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

export interface ServerDaemon {
  url: string;
  child: ChildProcess;
  /** Stops it and its servers, and waits for their exit. */
  end(): Promise<void>;
}

/** Starts the server daemon (daemon.ts); it never outlives this process. */
export async function startServerDaemon(env: NodeJS.ProcessEnv = process.env): Promise<ServerDaemon> {
  const path = fileURLToPath(new URL('daemon.ts', import.meta.url));
  const child = spawn(process.execPath, [path], { env, stdio: ['pipe', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const [line] = await Promise.race([
    once(child.stdout, 'data'),
    exited.then(([code]) => {
      throw new Error(`The server daemon exited with code ${code}`);
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
