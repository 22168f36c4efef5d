import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import {
  type Client,
  createClient,
  createOperatorClient,
  type OperatorClient,
} from '@wellspring/client/client';
import { eventually } from './eventually.ts';

const MAIN = fileURLToPath(new URL('../../../services/all/src/main.ts', import.meta.url));

export interface PlatformOptions {
  /** Of whoever calls; not removed at the end. */
  dataDir: string;
  /** Beyond the ports, keys and data directory: `WELLSPRING_…`. Nothing else of them is inherited. */
  env?: Record<string, string>;
  /** For node itself, e.g. `--cpu-prof`. */
  nodeFlags?: readonly string[];
  /** The process leads a group of its own, as in a terminal; default: it belongs to the group of whoever starts it. */
  ownGroup?: boolean;
}

/** The whole platform as a process of its own. Its ports, keys and data stay the same over restarts. */
export interface Platform extends AsyncDisposable {
  url: string;
  adminUrl: string;
  apiKey: string;
  adminKey: string;
  client: Client;
  operator: OperatorClient;
  /** Of the present process; undefined: none runs. */
  readonly pid: number | undefined;
  /** What all processes so far wrote. */
  output(): string;
  /** Starts a process; does not wait for it. */
  spawn(): void;
  /** Resolves when `/ready` answers 200. @throws Error with the output when the process ends, or after 30 s */
  ready(): Promise<void>;
  /**
   * Sends a signal, and resolves with the exit code (null: killed) when the process has ended.
   * @param group to its whole group, as a terminal does; needs `ownGroup`
   */
  end(signal?: NodeJS.Signals, group?: boolean): Promise<number | null>;
}

/**
 * A port that is free now. Below the range that the system gives to outgoing connections: there, a client could take
 * the port while the platform is down between two starts.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(15_000, 32_000);
    const isFree = await new Promise<boolean>((resolve) => {
      const server = createServer().once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
}

const foreign = (name: string) => !name.startsWith('WELLSPRING_') && name !== 'NODE_OPTIONS';

/** Starts the whole platform on free ports and resolves when it is ready. */
export async function startPlatform({
  dataDir,
  env = {},
  nodeFlags = [],
  ownGroup = false,
}: PlatformOptions): Promise<Platform> {
  const [port, adminPort] = [await freePort(), await freePort()];
  const [url, adminUrl] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${adminPort}`];
  const apiKey = 'ws_platform0under0test0000000000000';
  const adminKey = 'operator_of_a_platform_under_test00';
  let output = '';
  let child: ChildProcess | undefined;
  let ended: Promise<number | null> = Promise.resolve(null);

  const platform: Platform = {
    url,
    adminUrl,
    apiKey,
    adminKey,
    client: createClient({ url, key: apiKey }),
    operator: createOperatorClient({ url: adminUrl, key: adminKey }),
    get pid() {
      return child?.pid;
    },
    output: () => output,
    spawn() {
      if (child) throw new Error('the platform runs already');
      const started = spawn(process.execPath, [...nodeFlags, MAIN], {
        env: {
          ...Object.fromEntries(Object.entries(process.env).filter(([name]) => foreign(name))),
          WELLSPRING_PORT: String(port),
          WELLSPRING_ADMIN_PORT: String(adminPort),
          WELLSPRING_DATA_DIR: dataDir,
          WELLSPRING_API_KEY: apiKey,
          WELLSPRING_ADMIN_KEY: adminKey,
          WELLSPRING_API_RATE: '0',
          WELLSPRING_ALLOW_NETWORKS: '127.0.0.0/8',
          WELLSPRING_LOG_LEVEL: 'warn',
          WELLSPRING_LOG_FORMAT: 'json',
          ...env,
        },
        stdio: ['ignore', 'pipe', 'pipe'],
        detached: ownGroup,
      });
      child = started;
      for (const stream of [started.stdout, started.stderr]) {
        stream.setEncoding('utf8').on('data', (text: string) => {
          output += text;
        });
      }
      ended = new Promise((resolve) => {
        // Sandboxes that outlive it for a moment hold the pipes, so `close` would come later.
        started.once('exit', (code) => {
          child = undefined;
          resolve(code);
        });
      });
    },
    async ready() {
      const answers = async () => {
        if (!child) return true;
        return (await fetch(`${url}/ready`).catch(() => undefined))?.ok === true;
      };
      await eventually(answers, { ms: 30_000, every: 20 }).catch((error: unknown) => {
        throw new Error(`The platform is not ready: ${String(error)}\n${output}`);
      });
      if (!child) throw new Error(`The platform ended:\n${output}`);
    },
    async end(signal = 'SIGTERM', group = false) {
      if (group && child) process.kill(-child.pid!, signal);
      else child?.kill(signal);
      return ended;
    },
    async [Symbol.asyncDispose]() {
      await platform.end('SIGKILL');
    },
  };
  platform.spawn();
  try {
    await platform.ready();
  } catch (error) {
    await platform.end('SIGKILL');
    throw error;
  }
  return platform;
}
