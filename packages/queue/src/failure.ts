import { type Backoff, backoff } from '@wellspring/core/backoff';
import { asUnavailable, Unavailable } from '@wellspring/core/unavailable';
import type { WaitingJob } from './job-source.ts';
import { MAX_ATTEMPTS, type PoisonJob } from './port.ts';

const COUNTED: Backoff = { baseMs: 100, maxMs: 30_000 };
/** The job is not at fault: it continues soon after the server is back. */
const UNCOUNTED: Backoff = { baseMs: 100, maxMs: 2_000 };

export interface Failure<J extends WaitingJob> {
  /** Moves to the dead letters. */
  dead: J | undefined;
  /** Whether it counts as a failed attempt of the first job. */
  counts: boolean;
}

/** The effect of an error of the handler on the jobs of its batch. */
export function classifyFailure<J extends WaitingJob>(error: unknown, jobs: readonly J[]): Failure<J> {
  // By name: an error may come from another realm or another copy of the module.
  const { name, jobId } = (error ?? {}) as Partial<PoisonJob>;
  if (asUnavailable(error) instanceof Unavailable || ['Unavailable', 'LeaseLost'].includes(name as string)) {
    const later = jobs.find(({ id }) => id === jobId);
    if (later) later.alone = true;
    return { dead: undefined, counts: false };
  }
  const poisoned = name === 'PoisonJob' ? jobs.find(({ id }) => id === jobId) : undefined;
  const [first] = jobs;
  return { dead: poisoned ?? (first!.attempts + 1 >= MAX_ATTEMPTS ? first : undefined), counts: true };
}

/** Ms before the next batch of a key whose first job has failed. */
export const backoffOf = ({ attempts, uncounted = 0 }: WaitingJob, counts: boolean): number =>
  counts ? backoff(attempts, COUNTED) : backoff(uncounted, UNCOUNTED);
