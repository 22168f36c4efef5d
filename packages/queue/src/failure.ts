import { Unavailable } from '@wellspring/core/unavailable';
import type { Entry } from './lanes.ts';
import { MAX_ATTEMPTS, type PoisonJob } from './port.ts';

const FIRST_REST_MS = 100;
const LONGEST_REST_MS = 30_000;
/** What could not be counted had nothing to do with the job: it goes on soon after whatever was away is back. */
const LONGEST_UNCOUNTED_REST_MS = 2_000;

export interface Verdict<E extends Entry> {
  /** It will never be done. */
  dead: E | undefined;
  /** Counted against the first job; otherwise against none. */
  counts: boolean;
}

/** What it means for the jobs of a batch that their handler threw this. */
export function verdictOn<E extends Entry>(
  error: unknown,
  entries: readonly E[],
  idOf: (entry: E) => string,
): Verdict<E> {
  // By name, too: an error may come from another realm or another copy of the module.
  const { name, jobId } = (error ?? {}) as Partial<PoisonJob>;
  if (error instanceof Unavailable || (name as string) === 'Unavailable') {
    return { dead: undefined, counts: false };
  }
  const poisoned = name === 'PoisonJob' ? entries.find((entry) => idOf(entry) === jobId) : undefined;
  const [first] = entries;
  return { dead: poisoned ?? (first!.attempts + 1 >= MAX_ATTEMPTS ? first : undefined), counts: true };
}

/** How long the lane of a job rests after a failure, in ms: twice as long each time. */
export function restAfter({ attempts, uncounted = 0 }: Entry, counts: boolean): number {
  const failures = counts ? attempts : uncounted;
  const longest = counts ? LONGEST_REST_MS : LONGEST_UNCOUNTED_REST_MS;
  return Math.min(longest, FIRST_REST_MS * 2 ** Math.max(0, failures - 1));
}
