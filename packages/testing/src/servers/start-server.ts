import { eventually } from '../eventually.ts';
import type { TempDir } from '../temp-dir.ts';
import { type ProcessGroup, startGroup } from './process-group.ts';
import type { TestServer } from './server.ts';

export interface ServerProgram extends Pick<TestServer, 'name' | 'url'> {
  command: readonly string[];
  /** Working directory; removed with the server. */
  directory: TempDir;
  /** Complete, except for the inherited PATH. */
  env?: Record<string, string>;
  /** Whether it answers requests. */
  answers(): Promise<boolean>;
  /** Time limit and interval of the checks whether it answers, in ms. */
  checks: { ms: number; every?: number };
}

/** Starts a server that can be killed and restarted. @throws Error with its output when it does not start */
export async function startServer(program: ServerProgram): Promise<TestServer> {
  const { name, url, command, directory, env = {}, answers, checks } = program;
  let group: ProcessGroup | undefined;
  const server: TestServer = {
    name,
    url,
    async start() {
      if (group?.isRunning) return;
      const started = startGroup(command, { directory: directory.path, env });
      group = started;
      try {
        await eventually(async () => !started.isRunning || (await answers()), checks);
        if (!started.isRunning) throw new Error('it has exited');
      } catch (error) {
        await started.kill();
        throw new Error(`${name} does not start: ${String(error)}\n${await started.output()}`);
      }
    },
    async kill() {
      await group?.kill();
    },
    async freeze() {
      group?.signal('SIGSTOP');
    },
    resume() {
      group?.signal('SIGCONT');
    },
    async dispose() {
      await group?.kill();
      await directory.remove();
    },
  };
  try {
    await server.start();
  } catch (error) {
    await server.dispose();
    throw error;
  }
  return server;
}
