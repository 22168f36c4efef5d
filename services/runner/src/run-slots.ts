import { createLinkedList, type LinkedList } from '@wellspring/core/linked-list';
import { Unavailable } from '@wellspring/core/unavailable';
import type { OwnerCosts } from './owner-costs.ts';
import { createSlotLimit, type SlotLimit } from './slot-limit.ts';

/**
 * Limits the runs in progress of owners that cause most of the work while the main thread is overloaded: the more of them,
 * the longer each turn of the thread, and every read and write of the runs of other owners waits for a turn. A slot is for
 * several runs of one batch: runs of one source share commits.
 */
export interface RunSlots {
  /** Slots for the runs of one batch, one after the other. */
  open(ownerId: string): BatchSlots;
  stats(): {
    /** Slots that a heavy owner may hold. */
    limit: number;
    /** Batches that wait. */
    waiting: number;
  };
}

export interface BatchSlots extends Disposable {
  /** Waits until the next run may start. @throws Unavailable when the signal is aborted meanwhile */
  ready(signal: AbortSignal): Promise<void>;
  /** A run has started. @param done settles when it is committed */
  add(done: Promise<void>): void;
  /** No further run starts. */
  [Symbol.dispose](): void;
}

const RUNS_PER_SLOT = 16;
/** A slot that is held longer does not count: its runs wait for something else than the main thread, maybe for each other. */
const MAX_HELD_MS = 5_000;

interface Slot {
  isHeld(): boolean;
  /** Further calls have no effect. */
  release(): void;
}

interface Owner {
  held: number;
  waiting: LinkedList<() => void>;
}

/** A slot is given back when its batch has left it and its runs are done. */
function useSlot({ isHeld, release }: Slot) {
  let runs = 0;
  let users = 1;
  const leave = () => {
    users -= 1;
    if (users === 0) release();
  };
  return {
    takesRun: () => isHeld() && runs < RUNS_PER_SLOT,
    leave,
    add(done: Promise<void>) {
      runs += 1;
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
    held < limit.current || !costs.isHeavy(ownerId);

  function take(ownerId: string, owner: Owner): Slot {
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
    return { isHeld: () => !isReleased, release };
  }

  async function acquire(ownerId: string, signal: AbortSignal): Promise<Slot> {
    limit.adapt(mostHeld);
    let owner = owners.get(ownerId);
    if (!owner) {
      owner = { held: 0, waiting: createLinkedList() };
      owners.set(ownerId, owner);
    }
    const { waiting } = owner;
    if (waiting.size === 0 && mayTake(ownerId, owner)) return take(ownerId, owner);
    const ends = () => new Unavailable('The process ends');
    if (signal.aborted) throw ends();
    return new Promise((resolve, reject) => {
      const settle = () => {
        remove();
        signal.removeEventListener('abort', abort);
      };
      const abort = () => {
        settle();
        reject(ends());
      };
      const remove = waiting.append(() => {
        settle();
        resolve(take(ownerId, owner));
      });
      signal.addEventListener('abort', abort, { once: true });
    });
  }

  return {
    open(ownerId) {
      let used: ReturnType<typeof useSlot> | undefined;
      const leave = () => {
        used?.leave();
        used = undefined;
      };
      return {
        async ready(signal) {
          if (used?.takesRun()) return;
          leave();
          used = useSlot(await acquire(ownerId, signal));
        },
        add(done) {
          used?.add(done);
        },
        [Symbol.dispose]: leave,
      };
    },
    stats: () => ({
      limit: limit.current,
      waiting: [...owners.values()].reduce((sum, { waiting }) => sum + waiting.size, 0),
    }),
  };
}
