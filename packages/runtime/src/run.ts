import type { RequestListener } from 'node:http';
import type { ServiceName } from '@wellspring/contract/endpoint';
import type { Log } from '@wellspring/core/log';
import { createRouter, type Route } from '@wellspring/http/bind';
import { createProxy } from '@wellspring/http/proxy';
import { keepRunning } from './background-workers.ts';
import type { Config } from './config.ts';
import type { Credentials } from './credentials.ts';
import { prepareDataDirectory } from './data-directory.ts';
import type { Deps } from './deps.ts';
import { createHealthListener, dependencyMetrics, starting } from './health.ts';
import { housekeepingWorker } from './housekeeping.ts';
import { type Infra, openInfra } from './infra.ts';
import { installationMetrics } from './installation-metrics.ts';
import { type Listening, listen } from './listen.ts';
import { applyPresets } from './presets.ts';
import { measuredQueue } from './queue-metrics.ts';
import { openSandbox, type Sandbox } from './sandbox.ts';
import type { BackgroundWorker, Service } from './service.ts';

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
   * was accepted durably, so the next start resumes it. Gives whether all was finished.
   */
  stop(limitMs?: number): Promise<boolean>;
}

/** Supervisors that stop the process must allow more time than this. */
export const STOP_MS = 30_000;
/** Longer than a gateway keeps an idle connection to a service. */
const LINGER_MS = 4_000;

/**
 * Builds the adapters and services of a process, runs the workers, and listens. Until everything is there only the
 * operator listener answers, and says so; servers that do not answer yet are waited for. @throws Error when it cannot
 * start
 */
export async function runServices(config: Config, factories: Factories, log: Log): Promise<Running> {
  const services: Service[] = [];
  const listening: Listening[] = [];
  const early = new AbortController();
  const late = new AbortController();
  let answerOperator = starting;
  let draining = false;
  let infra: Infra | undefined;
  let sandbox: Sandbox | undefined;
  let closeProxy = () => {};

  async function release(): Promise<void> {
    for (const one of listening) one.destroy();
    closeProxy();
    for (const { name, dispose } of [...services].reverse()) {
      await dispose?.().catch((error: unknown) =>
        log.warn({ service: name, error: String(error) }, 'dispose.failed'),
      );
    }
    await infra?.close();
  }

  /** Before any listener exists: the caller releases resources when this fails. */
  async function start(): Promise<{ infra: Infra; working: Promise<unknown> }> {
    const { host: address, port, adminHost, adminPort } = config;
    listening.push(
      await listen({ host: adminHost, port: adminPort, what: 'operator listener' }, (req, res) =>
        answerOperator(req, res),
      ),
    );
    prepareDataDirectory(config.dataDir, log, config.mode === 'embedded');
    infra = await openInfra(config, log);
    const { keys, exposition } = infra;
    const deps = { ...infra.deps, queue: measuredQueue(infra.deps.queue, infra.deps) };
    dependencyMetrics(deps);
    // A key of its own for each process is nobody's wish: users are made by the operator API then.
    const hasPresets = config.mode === 'embedded' || config.apiKey !== null;
    if (hasPresets && config.services.includes('gateway')) {
      await applyPresets(deps, keys.credentials.api_key, config.apiKey !== null || keys.isNewApiKey);
    }
    const elsewhere = createProxy({ log, clock: deps.clock, draining: early.signal });
    closeProxy = elsewhere.close;
    const listeners = new Map<ServiceName, RequestListener>();
    const host: Host = {
      listenerOf(name) {
        const listener = listeners.get(name) ?? elsewhere.to(originsOf(config, name));
        listeners.set(name, listener);
        return listener;
      },
      async openSandbox() {
        const opened = await openSandbox(deps);
        sandbox = opened;
        return opened;
      },
    };
    const router = (routes: readonly Route[]) =>
      createRouter(routes, { principalKeys: deps.seal.keysFor('principal'), log });
    for (const name of config.services) {
      const service = await factories[name](deps, host);
      services.push(service);
      if (service.routes) listeners.set(name, router(service.routes));
    }
    const workers: BackgroundWorker[] = services.flatMap(({ workers = [] }) => workers);
    // Once in a platform is enough; a second one finds nothing left to do.
    if (config.services.includes('events')) {
      workers.push(housekeepingWorker(deps));
      installationMetrics(deps);
    }
    const working = Promise.all(
      workers.map((worker) => keepRunning(worker, (worker.early ? early : late).signal, deps)),
    );
    const isDraining = () => draining;
    const gateway = services.find(({ publicListener }) => publicListener);
    const operator = gateway?.operatorListener ?? nothingHere;
    const open = gateway?.publicListener ?? router(services.flatMap(({ routes = [] }) => routes));
    const operatorHealth = createHealthListener(deps, { isDraining, exposition });
    const health = createHealthListener(deps, { isDraining });
    answerOperator = (req, res) => void (operatorHealth(req, res) || operator(req, res));
    const lingerMs = config.mode === 'distributed' ? LINGER_MS : 0;
    // Nobody is sent here before there is somebody to answer.
    listening.push(
      await listen({ host: address, port, what: 'public listener', lingerMs }, (req, res) => {
        if (!health(req, res)) open(req, res);
      }),
    );
    return { infra, working };
  }

  const { infra: opened, working } = await start().catch(async (error: unknown) => {
    early.abort();
    late.abort();
    await release();
    throw error;
  });
  const { deps, keys } = opened;

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

/** @throws Error for a service that has no endpoints */
function originsOf(config: Config, service: ServiceName): readonly string[] {
  if (service === 'gateway' || service === 'runner' || service === 'delivery') {
    throw new Error(`nothing is asked of the service ${service} over HTTP`);
  }
  return config[`${service}Url`];
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
