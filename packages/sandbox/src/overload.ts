import { readFileSync } from 'node:fs';

/** Times of a thread since its start, in any unit. */
export interface ThreadTimes {
  ran: number;
  /** It could have run, but other threads had the processors. */
  waited: number;
}

/** Share of the time in which the thread could run. On an idle machine it waits less than 0.05. */
const MAX_WAIT_SHARE = 0.3;
const MIN_INTERVAL_MS = 250;

/** Times of the main thread. @returns undefined if the kernel does not report them */
function readOwnTimes(): ThreadTimes | undefined {
  try {
    const [ran, waited] = readFileSync('/proc/self/schedstat', 'utf8').split(' ').map(Number);
    return { ran: ran!, waited: waited! };
  } catch {
    return undefined;
  }
}

/**
 * Tells whether the processors are overloaded: whether this thread had to wait for one since the previous measurement.
 * False if the kernel does not report it.
 */
export function createOverloadCheck(read = readOwnTimes, now = () => performance.now()): () => boolean {
  let last = read();
  let lastAt = now();
  let isOverloaded = false;
  return () => {
    if (last === undefined || now() - lastAt < MIN_INTERVAL_MS) return isOverloaded;
    const times = read() ?? last;
    const waited = times.waited - last.waited;
    isOverloaded = waited > MAX_WAIT_SHARE * (waited + times.ran - last.ran);
    last = times;
    lastAt = now();
    return isOverloaded;
  };
}
