import { Agent, request } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';

/** Numbers in [0, 1) that the seed determines (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Calls an endpoint without end, over connections that are kept open, whether the platform runs or not. */
export interface Load {
  /** The `id` of every body that may have arrived. */
  readonly sent: ReadonlySet<string>;
  /** The ids that were answered 2xx. */
  readonly accepted: ReadonlySet<string>;
  /** How many were begun and got no answer at all. */
  readonly unanswered: number;
  /** How many were answered with 5xx. */
  readonly failed: number;
  /** Resolves when so many more were accepted than now. @throws Error after 30 s */
  acceptedMore(count: number): Promise<void>;
  /** Ends the calls under way. */
  stop(): Promise<void>;
  /** From now on calls go there. */
  moveTo(urls: readonly string[]): void;
  /** One more call, which has to be accepted; gives its id. */
  one(): Promise<string>;
}

/**
 * @param prefix of the ids, unlike that of every other load
 * @param first urls that take turns; where nobody listens, the next one is asked
 * @param restMs between two calls of a connection
 */
export function createLoad(prefix: string, first: readonly string[], connections: number, restMs = 0): Load {
  let urls = first;
  const sent = new Set<string>();
  const accepted = new Set<string>();
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const watchers = new Set<() => void>();
  let stopped = false;
  let next = 0;
  let unanswered = 0;
  let failed = 0;

  /** Whether it was answered 2xx. An id is sent once only: what became of a call that failed is not known. */
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
      // Refused while the platform is down: not in a tight loop.
      if (!(await send(nextId()))) await pause(25);
      else if (restMs > 0) await pause(restMs);
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

/** The status of the answer; `refused`: nobody listened; `lost`: there was a connection and no answer came. */
function post(agent: Agent, url: string, body: string): Promise<number | 'refused' | 'lost'> {
  return new Promise((resolve) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const req = request(url, { method: 'POST', agent, headers }, (res) => {
      res.resume();
      // The status came before the connection was lost: that is an answer.
      res.once('close', () => resolve(res.statusCode ?? 'lost'));
    });
    req.once('error', ({ code }: NodeJS.ErrnoException) =>
      resolve(code === 'ECONNREFUSED' ? 'refused' : 'lost'),
    );
    req.end(body);
  });
}
