import { type ChildProcess, spawn } from 'node:child_process';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ServiceName } from '@wellspring/contract/endpoint';
import { eventually } from './eventually.ts';
import { freePort } from './free-port.ts';

const MAIN = fileURLToPath(new URL('../../../services/all/src/main.ts', import.meta.url));
/** Compile cache that all processes share. */
const COMPILE_CACHE = fileURLToPath(new URL('../../../node_modules/.cache/compile', import.meta.url));
/** As in the script `start`; see ADR 37 and 39. */
const V8_FLAGS = ['--v8-pool-size=1', '--min-semi-space-size=16'];
const READY_MS = 90_000;

export interface ServiceProcessOptions {
  /** Default: all. */
  services?: readonly ServiceName[];
  /** The caller's; not removed at the end. */
  dataDir: string;
  /** Further variables `WELLSPRING_…`; none are inherited. */
  env?: Record<string, string>;
  /** For node itself, e.g. `--cpu-prof`. */
  nodeFlags?: readonly string[];
  /** Starts a new process group, as a terminal does; default: the caller's group. */
  ownGroup?: boolean;
}

/** A process with services of the platform. Its ports and data stay the same over restarts. */
export interface ServiceProcess extends AsyncDisposable {
  /** URL of its public listener. */
  url: string;
  /** URL of its operator listener. */
  adminUrl: string;
  /** Undefined if no process runs. */
  readonly pid: number | undefined;
  /** Output of all processes so far. */
  output(): string;
  /** Starts a process; does not wait for it. */
  spawn(): void;
  /** Resolves when `/ready` answers 200. @throws Error with the output when the process ends, or after 90 s */
  ready(): Promise<void>;
  /** `spawn` and `ready`; on failure the process is stopped. */
  start(): Promise<void>;
  /**
   * Sends a signal, and resolves with the exit code (null: killed) when the process has ended.
   * @param group to its whole group, as a terminal does; needs `ownGroup`
   */
  end(signal?: NodeJS.Signals, group?: boolean): Promise<number | null>;
  /** SIGSTOP to the process without its descendants. */
  freeze(): void;
  /** SIGCONT after `freeze`. */
  resume(): void;
}

const foreign = (name: string) => !name.startsWith('WELLSPRING_') && name !== 'NODE_OPTIONS';

/** Assigns free ports; does not start the process. */
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
      if (child) throw new Error('The process already runs');
      const started = spawn(process.execPath, [...V8_FLAGS, ...nodeFlags, MAIN, ...services], {
        env: {
          ...Object.fromEntries(Object.entries(process.env).filter(([name]) => foreign(name))),
          NODE_COMPILE_CACHE: COMPILE_CACHE,
          WELLSPRING_PORT: String(port),
          WELLSPRING_ADMIN_PORT: String(adminPort),
          // Relative, as the default is.
          WELLSPRING_DATA_DIR: relative('', dataDir),
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
        // Sandboxes hold the pipes a moment longer, so `close` would come later.
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
    freeze: () => void child?.kill('SIGSTOP'),
    resume: () => void child?.kill('SIGCONT'),
    async [Symbol.asyncDispose]() {
      await self.end('SIGKILL');
    },
  };
  return self;
}
