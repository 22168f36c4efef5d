import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { ServiceName } from '@wellspring/contract/endpoint';
import { eventually } from './eventually.ts';
import { freePort } from './free-port.ts';

const MAIN = fileURLToPath(new URL('../../../services/all/src/main.ts', import.meta.url));
/** Types are stripped and code is compiled once for all processes, which start many times on few processors. */
const COMPILE_CACHE = fileURLToPath(new URL('../../../node_modules/.cache/compile', import.meta.url));
const READY_MS = 90_000;

export interface ServiceProcessOptions {
  /** Default: all. */
  services?: readonly ServiceName[];
  /** Of whoever calls; not removed at the end. */
  dataDir: string;
  /** Beyond the ports and data directory: `WELLSPRING_…`. Nothing else of them is inherited. */
  env?: Record<string, string>;
  /** For node itself, e.g. `--cpu-prof`. */
  nodeFlags?: readonly string[];
  /** It leads a group of its own, as in a terminal; default: it belongs to the group of whoever starts it. */
  ownGroup?: boolean;
}

/** A process with services of the platform. Its ports and data stay the same over restarts. */
export interface ServiceProcess extends AsyncDisposable {
  /** Of its public listener. */
  url: string;
  /** Of its operator listener. */
  adminUrl: string;
  /** Of the present process; undefined: none runs. */
  readonly pid: number | undefined;
  /** What all processes so far wrote. */
  output(): string;
  /** Starts a process; does not wait for it. */
  spawn(): void;
  /** Resolves when `/ready` answers 200. @throws Error with the output when the process ends, or after 90 s */
  ready(): Promise<void>;
  /** spawn and ready; when that fails, nothing is left running. */
  start(): Promise<void>;
  /**
   * Sends a signal, and resolves with the exit code (null: killed) when the process has ended.
   * @param group to its whole group, as a terminal does; needs `ownGroup`
   */
  end(signal?: NodeJS.Signals, group?: boolean): Promise<number | null>;
}

const foreign = (name: string) => !name.startsWith('WELLSPRING_') && name !== 'NODE_OPTIONS';

/** A process that does not run yet, on free ports. */
export async function createServiceProcess({
  services = [],
  dataDir,
  env = {},
  nodeFlags = [],
  ownGroup = false,
}: ServiceProcessOptions): Promise<ServiceProcess> {
  const [port, adminPort] = [await freePort(), await freePort()];
  const [url, adminUrl] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${adminPort}`];
  let output = '';
  let child: ChildProcess | undefined;
  let ended: Promise<number | null> = Promise.resolve(null);

  const self: ServiceProcess = {
    url,
    adminUrl,
    get pid() {
      return child?.pid;
    },
    output: () => output,
    spawn() {
      if (child) throw new Error('the process runs already');
      const started = spawn(process.execPath, [...nodeFlags, MAIN, ...services], {
        env: {
          ...Object.fromEntries(Object.entries(process.env).filter(([name]) => foreign(name))),
          NODE_COMPILE_CACHE: COMPILE_CACHE,
          WELLSPRING_PORT: String(port),
          WELLSPRING_ADMIN_PORT: String(adminPort),
          WELLSPRING_DATA_DIR: dataDir,
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
      await eventually(answers, { ms: READY_MS, every: 20 }).catch((error: unknown) => {
        throw new Error(`The platform is not ready: ${String(error)}\n${output}`);
      });
      if (!child) throw new Error(`The platform ended:\n${output}`);
    },
    async start() {
      self.spawn();
      try {
        await self.ready();
      } catch (error) {
        await self.end('SIGKILL');
        throw error;
      }
    },
    async end(signal = 'SIGTERM', group = false) {
      if (group && child) process.kill(-child.pid!, signal);
      else child?.kill(signal);
      return ended;
    },
    async [Symbol.asyncDispose]() {
      await self.end('SIGKILL');
    },
  };
  return self;
}
