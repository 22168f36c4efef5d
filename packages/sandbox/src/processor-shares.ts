/** A process whose processor time is shared with those of other owners. */
export interface SharedProcess {
  readonly owner: string;
  /**
   * Processor time since its start in ms, if the kernel reports it.
   * @param ofAllThreads false: that of threads other than the main one may be some time old, which costs less
   */
  cpuMs(ofAllThreads: boolean): number | undefined;
  /** Stops it, even during a call. @returns false if that is not possible */
  hold(): boolean;
  /** Continues it. */
  letGo(): void;
}

/**
 * While several owners have calls, each may use half of the processors. The processes of an owner that uses more run in
 * turn, while its share lasts; the others are stopped.
 */
export interface ProcessorShares {
  /** The process has a call. */
  add(process: SharedProcess): void;
  /** The number of processors that each owner may use: half of them while several owners have calls. */
  perOwner(): number;
  /** Whether several owners have calls. */
  readonly areShared: boolean;
  /** It is frozen or has ended. */
  remove(process: SharedProcess): void;
  close(): void;
}

export interface ProcessorSharesOptions {
  processors: number;
  now?: () => number;
  /** Calls `work` at this interval. @returns a function that ends that */
  every?: (ms: number, work: () => void) => () => void;
}

interface Member {
  /** `cpuMs` at the previous tick; undefined: there was none. */
  cpuMs: number | undefined;
  isHeld: boolean;
  /** It used processor time in the last tick in which it could run. */
  isHungry: boolean;
}

interface Owner {
  members: Map<SharedProcess, Member>;
  /** Processor time that it may still use, in ms; it grows with its share and is negative after more use. */
  balanceMs: number;
  isLimited: boolean;
  /** When it last had a process that was not frozen. */
  activeAt: number;
}

export const TICK_MS = 25;
/** Processor time that an owner may use at once, per processor of its share. */
const BURST_MS = 50;
/** Owners whose last call is longer ago do not count. Short, since half of the processors may be idle meanwhile. */
export const ACTIVE_MS = 1_000;
/** Processor time in a tick. Processes that mostly wait use less, unless all of an owner together exceed its share. */
const MIN_HUNGRY_MS = 1;

function repeat(ms: number, work: () => void): () => void {
  const timer = setInterval(work, ms).unref();
  return () => clearInterval(timer);
}

/** A timer runs while several owners have calls. */
export function createProcessorShares({
  processors,
  now = () => performance.now(),
  every = repeat,
}: ProcessorSharesOptions): ProcessorShares {
  const owners = new Map<string, Owner>();
  const share = processors / 2;
  const maxRunning = Math.max(1, Math.floor(share));
  const maxBalanceMs = BURST_MS * share;
  let stopTicks: (() => void) | undefined;
  let tickedAt = now();

  function start(): void {
    if (stopTicks || owners.size < 2) return;
    tickedAt = now();
    stopTicks = every(TICK_MS, tick);
  }

  function stop(): void {
    stopTicks?.();
    stopTicks = undefined;
    for (const owner of owners.values()) {
      release(owner);
      owner.isLimited = false;
      owner.balanceMs = maxBalanceMs;
      for (const member of owner.members.values()) member.cpuMs = undefined;
    }
  }

  function tick(): void {
    const time = now();
    const elapsedMs = time - tickedAt;
    tickedAt = time;
    for (const [id, owner] of owners) {
      if (owner.members.size > 0) owner.activeAt = time;
      else if (time - owner.activeAt > ACTIVE_MS) owners.delete(id);
      charge(owner, elapsedMs);
      if (owner.isLimited) rotate(owner);
    }
    if (owners.size < 2) stop();
  }

  /** @returns processor time of the process since the previous measurement, in ms */
  function measure(process: SharedProcess, member: Member, ofAllThreads: boolean): number {
    const before = member.cpuMs;
    member.cpuMs = process.cpuMs(ofAllThreads);
    return before === undefined || member.cpuMs === undefined ? 0 : member.cpuMs - before;
  }

  function charge(owner: Owner, elapsedMs: number): void {
    const isActive = owner.balanceMs < maxBalanceMs;
    const minHungryMs = Math.min(MIN_HUNGRY_MS, (elapsedMs * share) / owner.members.size);
    let usedMs = 0;
    for (const [process, member] of owner.members) {
      const ms = measure(process, member, isActive);
      usedMs += ms;
      if (!member.isHeld) member.isHungry = ms >= minHungryMs;
    }
    owner.balanceMs = Math.min(maxBalanceMs, owner.balanceMs + elapsedMs * share - usedMs);
    const wasLimited = owner.isLimited;
    // After one excess, it has to save a whole burst.
    owner.isLimited = owner.balanceMs < (wasLimited ? maxBalanceMs : 0);
    // A long excess in the past does not count for ever.
    owner.balanceMs = Math.max(owner.balanceMs, -maxBalanceMs);
    if (wasLimited && !owner.isLimited) release(owner);
  }

  /** Lets the hungry processes run that have waited longest, and stops the others. */
  function rotate({ members, balanceMs }: Owner): void {
    const hungry = [...members].filter(([, member]) => member.isHungry);
    for (const [index, [process, member]] of hungry.entries()) {
      const runs = balanceMs >= 0 && index < maxRunning;
      if (runs && member.isHeld) process.letGo();
      member.isHeld = runs ? false : member.isHeld || process.hold();
      if (!runs) continue;
      // To the end of the order.
      members.delete(process);
      members.set(process, member);
    }
  }

  function release({ members }: Owner): void {
    for (const [process, member] of members) {
      if (member.isHeld) process.letGo();
      member.isHeld = false;
    }
  }

  return {
    add(process) {
      let owner = owners.get(process.owner);
      if (!owner) {
        owner = { members: new Map(), balanceMs: maxBalanceMs, isLimited: false, activeAt: now() };
        owners.set(process.owner, owner);
        start();
      }
      if (owner.members.has(process)) return;
      owner.members.set(process, {
        cpuMs: stopTicks && process.cpuMs(false),
        isHeld: false,
        isHungry: false,
      });
    },
    perOwner: () => (stopTicks ? maxRunning : processors),
    get areShared() {
      return stopTicks !== undefined;
    },
    remove(process) {
      const owner = owners.get(process.owner);
      const member = owner?.members.get(process);
      if (!owner || !member) return;
      if (stopTicks) owner.balanceMs -= measure(process, member, true);
      if (member.isHeld) process.letGo();
      owner.members.delete(process);
    },
    close() {
      stop();
      owners.clear();
    },
  };
}
