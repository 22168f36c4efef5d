import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { newId } from '@wellspring/core/ids';
import { methodNotAllowed } from '@wellspring/core/problem';
import { withTimeout } from '@wellspring/core/with-timeout';
import { pathOf } from '@wellspring/http/path-of';
import { sendProblem } from '@wellspring/http/problem-response';
import type { Deps } from './deps.ts';
import type { Exposition } from './metrics.ts';

/** A dependency without an answer in this time is down. */
const PING_TIMEOUT_MS = 2_000;

const DEPENDENCIES = ['store', 'queue', 'pubsub', 'call', 'blob'] as const;

/**
 * No reason to make all processes unready: without wake-ups work is only delayed, and without blobs only requests with
 * files are refused.
 */
const OPTIONAL: readonly string[] = ['pubsub', 'blob'];

type Dependencies = Pick<Deps, (typeof DEPENDENCIES)[number]>;

/** Answers health checks; false for other requests. */
export type HealthListener = (req: IncomingMessage, res: ServerResponse) => boolean;

export interface HealthOptions {
  /** The process accepts no new work. */
  isDraining(): boolean;
  /** Absent: this listener shows no metrics. */
  exposition?: Exposition;
}

/**
 * `GET /health`: the process is alive. `GET /ready`: its dependencies answer and it takes work, else 503 with the
 * names of those that do not; an optional one counts as degraded. `GET /metrics`: if an exposition is given.
 */
export function createHealthListener(
  deps: Dependencies & Pick<Deps, 'log'>,
  { isDraining, exposition }: HealthOptions,
): HealthListener {
  async function ready(): Promise<{ status: number; body: object }> {
    if (isDraining()) return { status: 503, body: { status: 'draining' } };
    const answers = await Promise.all(DEPENDENCIES.map((name) => answersInTime(deps[name])));
    const failing = DEPENDENCIES.filter((_, index) => !answers[index]);
    if (failing.some((name) => !OPTIONAL.includes(name)))
      return { status: 503, body: { status: 'not ready', failing } };
    return { status: 200, body: { status: 'ready', ...(failing.length > 0 && { degraded: failing }) } };
  }

  return (req, res) => {
    const path = pathOf(req);
    const isMetrics = path === '/metrics' && exposition !== undefined;
    if (path !== '/health' && path !== '/ready' && !isMetrics) return false;
    req.resume();
    if (req.method !== 'GET' && req.method !== 'HEAD') {
      sendProblem(res, methodNotAllowed(['GET', 'HEAD']), { requestId: newId('req'), log: deps.log });
    } else if (path === '/health') {
      send(res, 200, 'application/json', '{"status":"ok"}');
    } else if (isMetrics) {
      exposition.read().then(
        (text) => send(res, 200, exposition.contentType, text),
        () => send(res, 500, 'text/plain', 'metrics cannot be read'),
      );
    } else {
      ready().then(({ status, body }) => send(res, status, 'application/json', JSON.stringify(body)));
    }
    return true;
  };
}

/** Metrics: which dependencies answer this process. */
export function dependencyMetrics(deps: Dependencies & Pick<Deps, 'metrics'>): void {
  for (const dependency of DEPENDENCIES) {
    deps.metrics.gauge(
      'wellspring_dependency_up',
      'Whether the dependency answers this process: 1 or 0',
      async () => ((await answersInTime(deps[dependency])) ? 1 : 0),
      { dependency },
    );
  }
}

/** Answers while the process starts: alive, not ready. */
export const starting: RequestListener = (req, res) => {
  req.resume();
  const alive = pathOf(req) === '/health';
  const body = alive ? '{"status":"ok"}' : '{"status":"starting"}';
  send(res, alive ? 200 : 503, 'application/json', body, alive ? {} : { 'retry-after': '1' });
};

function send(res: ServerResponse, status: number, type: string, body: string, headers = {}): void {
  res.writeHead(status, { 'content-type': type, 'cache-control': 'no-store', ...headers });
  res.end(body);
}

const answersInTime = ({ ping }: { ping(): Promise<void> }): Promise<boolean> =>
  withTimeout(Promise.try(ping), PING_TIMEOUT_MS, () => {
    throw new Error('late');
  }).then(
    () => true,
    () => false,
  );
