import type { RequestListener } from 'node:http';
import type { ServiceName } from '@wellspring/contract/endpoint';
import type { Log } from '@wellspring/core/log';
import { createRouter } from '@wellspring/http/bind';
import type { Config } from './config.ts';
import type { Credentials } from './credentials.ts';
import type { Deps } from './deps.ts';
import { createHealthListener } from './health.ts';
import { housekeepingWorker } from './housekeeping.ts';
import { openInfra } from './infra.ts';
import { type Listening, listen } from './listen.ts';
import { applyPresets } from './presets.ts';
import { openSandbox, type Sandbox } from './sandbox.ts';
import type { Service, Worker } from './service.ts';
import { keepRunning } from './workers.ts';

/** What a service may take from the process that runs it. */
export interface Host {
  /** What answers for a service. */
  listenerOf(service: ServiceName): RequestListener;
  /** Processes for user code; one service of a process opens them. */
  openSandbox(): Promise<Sandbox>;
}

export type Factories = { [Name in ServiceName]: (deps: Deps, host: Host) => Service | Promise<Service> };

/** A platform that runs. */
export interface Running {
  config: Config;
  credentials: Credentials;
  credentialsPath: string;
  /** The API key was made by this start, not preset. */
  isNewApiKey: boolean;
  /** How user code is kept in; null: no user code runs in this process. */
  isolation: Sandbox['executor']['tier'] | null;
  /**
   * Takes no new work, finishes what it began, and resolves. What is not finished after `limitMs` is broken off: it
   * was accepted durably, so the next start takes it up again. Gives whether all was finished.
   */
  stop(limitMs?: number): Promise<boolean>;
}

const STOP_MS = 30_000;

/** Builds the adapters and services of a process, listens, and runs the workers. @throws Error when it cannot start */
export async function runServices(config: Config, factories: Factories, log: Log): Promise<Running> {
  const infra = openInfra(config, log);
  const { keys, exposition } = infra;
  const deps = infra.deps;
  const services: Service[] = [];
  const listening: Listening[] = [];
  const early = new AbortController();
  const late = new AbortController();
  let draining = false;
  let sandbox: Sandbox | undefined;

  async function release(): Promise<void> {
    for (const one of listening) one.destroy();
    for (const { name, dispose } of [...services].reverse()) {
      await dispose?.().catch((error: unknown) =>
        log.warn({ service: name, error: String(error) }, 'dispose.failed'),
      );
    }
    await infra.close();
  }

  let working: Promise<unknown>;
  try {
    await applyPresets(deps, keys.credentials.api_key, config.apiKey !== null || keys.isNewApiKey);
    const routers = new Map<ServiceName, RequestListener>();
    const host: Host = {
      listenerOf(name) {
        const router = routers.get(name);
        if (!router) throw new Error(`the service ${name} is not in this process`);
        return router;
      },
      async openSandbox() {
        const opened = await openSandbox(deps);
        sandbox = opened;
        return opened;
      },
    };
    for (const name of config.services) {
      const service = await factories[name](deps, host);
      services.push(service);
      if (service.routes) {
        routers.set(
          name,
          createRouter(service.routes, { principalKeys: deps.seal.keysFor('principal'), log }),
        );
      }
    }
    const workers: Worker[] = [...services.flatMap(({ workers = [] }) => workers), housekeepingWorker(deps)];
    working = Promise.all(
      workers.map((worker) => keepRunning(worker, (worker.early ? early : late).signal, deps)),
    );
    const isDraining = () => draining;
    const gateway = services.find(({ publicListener }) => publicListener);
    const operatorHealth = createHealthListener(deps, { isDraining, exposition });
    const { operatorListener = nothingHere, publicListener } = gateway ?? {};
    listening.push(
      await listen(
        { host: config.adminHost, port: config.adminPort, what: 'operator listener' },
        (req, res) => {
          if (!operatorHealth(req, res)) operatorListener(req, res);
        },
      ),
    );
    if (publicListener) {
      const health = createHealthListener(deps, { isDraining });
      listening.push(
        await listen({ host: config.host, port: config.port, what: 'public listener' }, (req, res) => {
          if (!health(req, res)) publicListener(req, res);
        }),
      );
    }
  } catch (error) {
    early.abort();
    late.abort();
    await release();
    throw error;
  }

  async function drain(limit: AbortSignal): Promise<boolean> {
    draining = true;
    const [operator, publicOne] = listening;
    early.abort();
    // The workers go on meanwhile: requests under way wait for runs and hooks.
    const answered = await before(limit, publicOne?.drain());
    late.abort();
    const ended = await before(limit, working);
    operator?.destroy();
    return answered && ended;
  }

  let stopping: Promise<boolean> | undefined;
  return {
    config: deps.config,
    credentials: keys.credentials,
    credentialsPath: keys.path,
    isNewApiKey: keys.isNewApiKey && config.apiKey === null,
    isolation: sandbox?.executor.tier ?? null,
    stop(limitMs = STOP_MS) {
      stopping ??= (async () => {
        const finished = await drain(AbortSignal.timeout(limitMs));
        await release();
        return finished;
      })();
      return stopping;
    },
  };
}

const nothingHere: RequestListener = (_req, res) => {
  res.writeHead(404, { 'content-type': 'text/plain' }).end('Not Found');
};

/** Whether this is done before the limit. */
function before(limit: AbortSignal, done: Promise<unknown> | undefined): Promise<boolean> {
  return new Promise((resolve) => {
    if (limit.aborted) return resolve(false);
    limit.addEventListener('abort', () => resolve(false), { once: true });
    Promise.resolve(done).then(() => resolve(true));
  });
}
