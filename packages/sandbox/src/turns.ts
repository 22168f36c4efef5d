import { createFairQueue } from './fair-queue.ts';

/**
 * Shares the main thread between processes that send much: work runs in time slices, within a budget per turn of the
 * event loop, and owners take turns.
 */
export interface Turns {
  /**
   * Calls `work` slice by slice until it has nothing more to do: for the first time now, if this turn of the event loop
   * has time left.
   * @param work gets the time (`performance.now()`) at which its slice ends; returns whether there is more to do
   * @returns whether it was done at once
   */
  run(owner: string, work: (deadline: number) => boolean): boolean;
}

/**
 * Shares the main thread with others as `Turns.run`. Resolves when `work` has nothing more to do.
 * @throws what `work` throws
 */
export type InTurns = (work: (deadline: number) => boolean) => Promise<void>;

/** Work of an owner in turns. */
export const inTurnsOf =
  (turns: Turns, owner: string): InTurns =>
  (work) =>
    new Promise((resolve, reject) => {
      turns.run(owner, (deadline) => {
        try {
          const hasMore = work(deadline);
          if (!hasMore) resolve();
          return hasMore;
        } catch (error) {
          reject(error);
          return false;
        }
      });
    });

const SLICE_MS = 2;
const TURN_MS = 6;
/** Pause after an unfinished slice, so that a process gets at most a quarter of the time. */
const PAUSE_MS = 6;
/** Less than this is carried over to the next turn, which is cheaper than a reset after each short call. */
const CARRIED_MS = 0.5;

export function createTurns({ sliceMs = SLICE_MS, turnMs = TURN_MS, pauseMs = PAUSE_MS } = {}): Turns {
  const waiting = createFairQueue<{ owner: string; work: (deadline: number) => boolean }>();
  let spentMs = 0;
  let scheduled = false;

  function slice(owner: string, work: (deadline: number) => boolean): boolean {
    const begun = performance.now();
    const hasMore = work(begun + sliceMs);
    spentMs += performance.now() - begun;
    if (hasMore) setTimeout(enqueue, pauseMs, owner, work);
    return !hasMore;
  }

  function enqueue(owner: string, work: (deadline: number) => boolean): void {
    waiting.push(owner, { owner, work });
    schedule();
  }

  function schedule(): void {
    if (scheduled) return;
    scheduled = true;
    setImmediate(() => {
      scheduled = false;
      spentMs = 0;
      for (let next = waiting.shift(); next; next = spentMs < turnMs ? waiting.shift() : undefined) {
        slice(next.owner, next.work);
      }
      // Schedules another reset of `spentMs`.
      if (waiting.size > 0 || spentMs > CARRIED_MS) schedule();
    });
  }

  return {
    run(owner, work) {
      // Waits for its turn if others wait.
      if (spentMs >= turnMs || waiting.size > 0) {
        enqueue(owner, work);
        return false;
      }
      const isDone = slice(owner, work);
      if (spentMs > CARRIED_MS) schedule();
      return isDone;
    },
  };
}
