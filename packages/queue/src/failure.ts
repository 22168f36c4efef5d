import { type Backoff, backoff } from '@wellspring/core/backoff';
import { asUnavailable, Unavailable } from '@wellspring/core/unavailable';
import type { WaitingJob } from './job-source.ts';
import { LeaseLost, MAX_ATTEMPTS, NewerVersion, PoisonJob } from './port.ts';

const COUNTED: Backoff = { baseMs: 100, maxMs: 30_000 };
/** The job is not at fault: it continues soon after the server is back. */
const UNCOUNTED: Backoff = { baseMs: 100, maxMs: 2_000 };

export interface Failure<J extends WaitingJob> {
  /** Moves to the dead letters. */
  dead: J | undefined;
  /** Whether it counts as a failed attempt of the first job. */
  counts: boolean;
}

/** The effect of an error of the handler on the jobs of its batch. @param first of those that the handler got */
export function classifyFailure<J extends WaitingJob>(
  error: unknown,
  jobs: readonly J[],
  first: J,
): Failure<J> {
  if (error instanceof LeaseLost || asUnavailable(error) instanceof Unavailable) {
    const newer = error instanceof NewerVersion && jobs.find(({ id }) => id === error.jobId);
    if (newer) newer.alone = true;
    return { dead: undefined, counts: false };
  }
  const poisoned = error instanceof PoisonJob ? jobs.find(({ id }) => id === error.jobId) : undefined;
  return { dead: poisoned ?? (first.attempts + 1 >= MAX_ATTEMPTS ? first : undefined), counts: true };
}

/** Ms before the next batch of a key whose first job has failed. */
export const backoffOf = ({ attempts, uncounted = 0 }: WaitingJob, counts: boolean): number =>
  counts ? backoff(attempts, COUNTED) : backoff(uncounted, UNCOUNTED);
