import type { Clock } from '@wellspring/core/clock';
import { untilAborted } from '@wellspring/core/until-aborted';
import type { Dispatcher } from '../dispatcher.ts';
import type { ReceivedJob } from './received-job.ts';
import type { ReceivedJobs } from './received-jobs.ts';

/** A job that runs for longer does not hold up the other keys of the partition. */
const LONG_RUNNING_MS = 1_000;
const CHECK_INTERVAL_MS = 100;
/** A key does not wait for longer than this after its last job: a job of another one may take minutes. */
const MAX_HOLD_MS = 10_000;

/**
 * Waits until no job of a partition that is to be released is out. A key with a long-running job starts nothing more, so
 * that the others do not wait for each of its jobs in turn; if jobs of other keys take much longer, it goes on meanwhile.
 * While there is such a job, the other keys are served; otherwise they are paused, too: the jobs that are out end soon, or
 * one of them is the next that runs for long.
 */
export interface Draining {
  /** Before a job of the key is offered. */
  onJob(key: string): void;
  /** Nothing of the key is started, nor is the rest of a batch. */
  isHeld(key: string): boolean;
  /** Resolves when no job is out, or when the signal is aborted. */
  drain(urgent: AbortSignal): Promise<void>;
  /** Jobs have ended. */
  onEnded(): void;
  /** Resolves when no job is out. */
  ended(): Promise<void>;
  /** Other holders of the keys may start them. */
  end(): void;
}

export function createDraining(
  dispatcher: Pick<Dispatcher<ReceivedJob>, 'hold'>,
  { jobs, keysOut }: Pick<ReceivedJobs, 'jobs' | 'keysOut'>,
  clock: Clock,
  now = () => performance.now(),
): Draining {
  /** Each with the function that ends its hold. */
  const held = new Map<string, () => void>();
  let isPaused = false;
  let wake = new AbortController();

  function hold(keys: Iterable<string>): void {
    for (const key of keys) if (!held.has(key)) held.set(key, dispatcher.hold(key));
  }

  function resume(isChosen: (key: string) => boolean): void {
    isPaused = false;
    for (const [key, release] of held) if (isChosen(key) && held.delete(key)) release();
  }

  return {
    onJob(key) {
      if (isPaused) hold([key]);
    },
    isHeld: (key) => held.has(key),
    async drain(urgent) {
      /** Keys with long-running jobs, with the time at which the last one was out. */
      const slow = new Map<string, number>();
      while (keysOut().size > 0 && !urgent.aborted) {
        const running = keysOut(now() - LONG_RUNNING_MS);
        for (const key of running) slow.set(key, now());
        for (const [key, outAt] of slow) if (now() - outAt > MAX_HOLD_MS) slow.delete(key);
        if (running.size > 0) resume((key) => !slow.has(key));
        else isPaused = true;
        hold(isPaused ? jobs.values().map(({ key }) => key) : slow.keys());
        wake = new AbortController();
        await clock.sleep(CHECK_INTERVAL_MS, AbortSignal.any([urgent, wake.signal]));
      }
    },
    onEnded: () => wake.abort(),
    async ended() {
      while (keysOut().size > 0) {
        wake = new AbortController();
        await untilAborted(wake.signal);
      }
    },
    end: () => resume(() => true),
  };
}
