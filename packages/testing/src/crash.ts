import { Agent, request } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';

/** Pseudo-random numbers in [0, 1) (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Calls an endpoint until it is stopped, over persistent connections, whether the platform runs or not. */
export interface Load {
  /** The `id` of every body that may have arrived. */
  readonly sent: ReadonlySet<string>;
  /** Ids answered with 2xx. */
  readonly accepted: ReadonlySet<string>;
  /** Calls without a response. */
  readonly unanswered: number;
  /** Calls answered with 5xx. */
  readonly failed: number;
  /** Waits until this many more calls are accepted. @throws Error after 30 s */
  acceptedMore(count: number): Promise<void>;
  /** Stops after the calls in progress. */
  stop(): Promise<void>;
  /** Sets the URLs of further calls. */
  moveTo(urls: readonly string[]): void;
  /** Sends one more call. @returns its id @throws Error unless it is accepted */
  one(): Promise<string>;
}

/**
 * @param prefix of the ids, unique for each load
 * @param first URLs that are used in turn; if the connection is refused, the next one
 * @param pauseMs between two calls of a connection
 */
export function createLoad(prefix: string, first: readonly string[], connections: number, pauseMs = 0): Load {
  let urls = first;
  const sent = new Set<string>();
  const accepted = new Set<string>();
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const watchers = new Set<() => void>();
  let stopped = false;
  let next = 0;
  let unanswered = 0;
  let failed = 0;

  /** Whether the response was 2xx. Each id is sent only once, because the outcome of a failed call is unknown. */
  async function send(id: string): Promise<boolean> {
    let status: Awaited<ReturnType<typeof post>> = 'refused';
    for (let tries = 0; status === 'refused' && tries < urls.length; tries++) {
      next = (next + 1) % urls.length;
      status = await post(agent, urls[next]!, JSON.stringify({ id }));
    }
    if (status !== 'refused') sent.add(id);
    if (status === 'lost') unanswered += 1;
    if (typeof status === 'number' && status >= 500) failed += 1;
    if (typeof status === 'string' || status < 200 || status > 299) return false;
    accepted.add(id);
    for (const watch of [...watchers]) watch();
    return true;
  }

  let ids = 0;
  const nextId = () => `${prefix}${++ids}`;

  async function connection(): Promise<void> {
    while (!stopped) {
      // Avoids a tight loop while the platform is down.
      if (!(await send(nextId()))) await pause(25);
      else if (pauseMs > 0) await pause(pauseMs);
    }
  }
  const running = Array.from({ length: connections }, connection);

  return {
    sent,
    accepted,
    get unanswered() {
      return unanswered;
    },
    get failed() {
      return failed;
    },
    acceptedMore(count) {
      const goal = accepted.size + count;
      return new Promise((resolve, reject) => {
        const end = (settle: () => void) => {
          clearTimeout(timer);
          watchers.delete(watch);
          settle();
        };
        const watch = () => accepted.size >= goal && end(resolve);
        const timer = setTimeout(
          () => end(() => reject(new Error(`${accepted.size} of ${goal} calls were accepted within 30 s`))),
          30_000,
        );
        watchers.add(watch);
        watch();
      });
    },
    async stop() {
      stopped = true;
      await Promise.all(running);
      agent.destroy();
    },
    moveTo(others) {
      urls = others;
    },
    async one() {
      const id = nextId();
      if (!(await send(id))) throw new Error('The call was not accepted.');
      agent.destroy();
      return id;
    },
  };
}

/** The status; `refused`: no connection; `lost`: connection without a response. */
function post(agent: Agent, url: string, body: string): Promise<number | 'refused' | 'lost'> {
  return new Promise((resolve) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const req = request(url, { method: 'POST', agent, headers }, (res) => {
      res.resume();
      // A status that arrives before the connection is lost is a response.
      res.once('close', () => resolve(res.statusCode ?? 'lost'));
    });
    req.once('error', ({ code }: NodeJS.ErrnoException) =>
      resolve(code === 'ECONNREFUSED' ? 'refused' : 'lost'),
    );
    req.end(body);
  });
}
