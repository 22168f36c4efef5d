import { createLinkedList, type LinkedList } from '@wellspring/core/linked-list';
import type { OwnerCosts } from './owner-costs.ts';
import { createSlotLimit, MIN_SLOTS, type SlotLimit } from './slot-limit.ts';

/**
 * Limits the runs in progress of owners that cause most of the work while the main thread is overloaded: the more of them,
 * the longer each turn of the thread, and every read and write of the runs of other owners waits for a turn. A slot is for
 * a few runs of one batch, which are committed together.
 */
export interface RunSlots {
  /** Slots for the runs of one batch, one after the other. */
  open(ownerId: string): BatchSlots;
  stats(): { waiting: number };
}

export interface BatchSlots extends Disposable {
  /** Waits until the next run may start, or the signal is aborted. */
  ready(signal: AbortSignal): Promise<void>;
  /** A run has started. @param done settles when it is committed */
  add(done: Promise<void>): void;
  /** No further run starts. */
  [Symbol.dispose](): void;
}

const RUNS_PER_SLOT = 16;
/** A slot that is held longer does not count: its runs wait for something else than the main thread, maybe for each other. */
const MAX_HELD_MS = 5_000;

interface Owner {
  held: number;
  waiting: LinkedList<() => void>;
}

/** Is given back when its batch has left it and its runs are done. */
function createSlot(release: () => void) {
  let users = 1;
  const leave = () => {
    users -= 1;
    if (users === 0) release();
  };
  return {
    /** Number of runs started. */
    runs: 0,
    leave,
    add(done: Promise<void>) {
      this.runs += 1;
      users += 1;
      done.then(leave, leave);
    },
  };
}

/** Calls `then` after `ms`, unless it is cancelled by the returned function. */
type Later = (ms: number, then: () => void) => () => void;

const laterByTimer: Later = (ms, then) => {
  const timer = setTimeout(then, ms).unref();
  return () => clearTimeout(timer);
};

export function createRunSlots(
  costs: Pick<OwnerCosts, 'isHeavy'>,
  limit: SlotLimit = createSlotLimit(),
  later: Later = laterByTimer,
): RunSlots {
  const owners = new Map<string, Owner>();

  const mostHeld = () => Math.max(0, ...owners.values().map(({ held }) => held));

  const mayTake = (ownerId: string, { held }: Owner): boolean =>
    held < MIN_SLOTS || held < limit.current || !costs.isHeavy(ownerId);

  /** @returns a function that gives the slot back; further calls have no effect */
  function take(ownerId: string, owner: Owner): () => void {
    let isReleased = false;
    owner.held += 1;
    const cancel = later(MAX_HELD_MS, release);
    function release(): void {
      if (isReleased) return;
      isReleased = true;
      cancel();
      owner.held -= 1;
      limit.adapt(mostHeld);
      while (owner.waiting.size > 0 && mayTake(ownerId, owner)) owner.waiting.first!();
      if (owner.held === 0) owners.delete(ownerId);
    }
    return release;
  }

  async function acquire(ownerId: string, signal: AbortSignal): Promise<() => void> {
    limit.adapt(mostHeld);
    let owner = owners.get(ownerId);
    if (!owner) {
      owner = { held: 0, waiting: createLinkedList() };
      owners.set(ownerId, owner);
    }
    const { waiting } = owner;
    if (waiting.size === 0 && mayTake(ownerId, owner)) return take(ownerId, owner);
    if (signal.aborted) return () => {};
    return new Promise((resolve) => {
      const end = (release: () => void) => {
        remove();
        signal.removeEventListener('abort', abort);
        resolve(release);
      };
      const abort = () => end(() => {});
      const remove = waiting.append(() => end(take(ownerId, owner)));
      signal.addEventListener('abort', abort, { once: true });
    });
  }

  return {
    open(ownerId) {
      let slot: ReturnType<typeof createSlot> | undefined;
      return {
        async ready(signal) {
          if (slot && slot.runs < RUNS_PER_SLOT) return;
          slot?.leave();
          slot = createSlot(await acquire(ownerId, signal));
        },
        add(done) {
          slot?.add(done);
        },
        [Symbol.dispose]() {
          slot?.leave();
        },
      };
    },
    stats: () => ({
      waiting: [...owners.values()].reduce((sum, { waiting }) => sum + waiting.size, 0),
    }),
  };
}
