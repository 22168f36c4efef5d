import { type Backoff, backoff } from '@wellspring/core/backoff';
import { asUnavailable, Unavailable } from '@wellspring/core/unavailable';
import type { Entry } from './key-queues.ts';
import { MAX_ATTEMPTS, type PoisonJob } from './port.ts';

const COUNTED: Backoff = { baseMs: 100, maxMs: 30_000 };
/** The job is not at fault: it continues soon after the server is back. */
const UNCOUNTED: Backoff = { baseMs: 100, maxMs: 2_000 };

export interface Failure<E extends Entry> {
  /** Moves to the dead letters. */
  dead: E | undefined;
  /** Whether it counts as a failed attempt of the first job. */
  counts: boolean;
}

/** The effect of an error of the handler on the jobs of its batch. */
export function classifyFailure<E extends Entry>(
  error: unknown,
  entries: readonly E[],
  idOf: (entry: E) => string,
): Failure<E> {
  // By name: an error may come from another realm or another copy of the module.
  const { name, jobId } = (error ?? {}) as Partial<PoisonJob>;
  if (asUnavailable(error) instanceof Unavailable || ['Unavailable', 'LeaseLost'].includes(name as string)) {
    const later = entries.find((entry) => idOf(entry) === jobId);
    if (later) later.alone = true;
    return { dead: undefined, counts: false };
  }
  const poisoned = name === 'PoisonJob' ? entries.find((entry) => idOf(entry) === jobId) : undefined;
  const [first] = entries;
  return { dead: poisoned ?? (first!.attempts + 1 >= MAX_ATTEMPTS ? first : undefined), counts: true };
}

/** Ms before the next batch of a key whose first job has failed. */
export const backoffOf = ({ attempts, uncounted = 0 }: Entry, counts: boolean): number =>
  counts ? backoff(attempts, COUNTED) : backoff(uncounted, UNCOUNTED);
