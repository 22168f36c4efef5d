import { totalmem } from 'node:os';
import type { Child } from './child.ts';
import { sandboxClosed } from './pool.ts';

/** A sandbox process as far as memory is concerned. */
export interface MemoryUser {
  readonly ownerId: string;
  /** Its memory. */
  readonly bytes: number;
  /** Number of its calls so far; 0: it is about to get the first one. */
  readonly calls: number;
  /** Number of unfinished calls. */
  readonly busy: number;
  /** `performance.now()` of its last use. */
  readonly usedAt: number;
  /** Time between its calls in ms; 0: unknown. See CallGaps. */
  readonly gapMs: number;
}

/** Typical memory of a process that has loaded a source with one or two packages. */
export const ESTIMATED_BYTES = 24 * 1024 * 1024;

/**
 * Memory of all sandbox processes together. Idle processes give way to busy ones, which owners share: an owner starts
 * another process only while its busy ones hold less than is free.
 */
export interface ProcessMemory {
  /**
   * Waits until the owner may start a process. One process may always run, however little memory there is.
   * @returns a function to call once when the process has started, or has failed to
   * @throws Error when it is closed
   */
  admit(ownerId: string): Promise<() => void>;
  /** Ends processes until the others fit; to be called after measurements. */
  fit(): void;
  /** Admits starts that wait; to be called when a process has become idle, or has ended. */
  serve(): void;
  close(): void;
}

type MeasuredChild = Pick<Child, 'usable' | 'memoryBytes'>;

export interface ProcessMemoryOptions<C, P> {
  limitBytes: number;
  /** All that have not ended. */
  children: Iterable<C>;
  /** @returns undefined if the child has no code yet */
  processOf(child: C): P | undefined;
  end(process: P): void;
}

interface Request {
  resolve(release: () => void): void;
  reject(error: Error): void;
}

const MB = 1024 * 1024;

/** Half of the memory of the machine, or of the container if it is limited further. */
export const defaultMemoryBytes = (): number =>
  Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY) / 2;

/** For the author of code whose process was ended by `fit`. */
export const outOfMemory = (limitBytes: number): string =>
  `Out of memory: all code together may use ${Math.floor(limitBytes / MB)} MB, half of WELLSPRING_MEMORY_MB, and that of this owner used the most.`;

/** Gaps vary: the next call may come later by this factor. */
const LATE = 1.25;

const isIdle = ({ calls, busy }: MemoryUser) => calls > 0 && busy === 0;
/** `performance.now()` at which it is expected. */
const nextCallOf = ({ usedAt, gapMs }: MemoryUser) => usedAt + gapMs;

export function createProcessMemory<C extends MeasuredChild, P extends MemoryUser>({
  limitBytes,
  children,
  processOf,
  end,
}: ProcessMemoryOptions<C, P>): ProcessMemory {
  /** Number of starts in progress. */
  const starting = new Map<string, number>();
  /** In the order in which owners with equal memory are served. */
  const waiting = new Map<string, Request[]>();
  let closed = false;

  /** The processes with code that are not being ended, and what they may hold besides the unused ones. */
  function list(): { processes: P[]; maxBytes: number } {
    const processes: P[] = [];
    let maxBytes = limitBytes;
    for (const child of children) {
      const found = processOf(child);
      if (!found) maxBytes -= child.memoryBytes ?? ESTIMATED_BYTES;
      else if (child.usable) processes.push(found);
    }
    return { processes, maxBytes };
  }

  /** Memory of processes that are not idle. */
  function heldByOwner(processes: readonly P[]): Map<string, number> {
    const held = new Map<string, number>();
    for (const one of processes) if (!isIdle(one)) add(held, one.ownerId, one.bytes);
    for (const [owner, count] of starting) add(held, owner, count * ESTIMATED_BYTES);
    return held;
  }

  function mayStart(owner: string, held: ReadonlyMap<string, number>, maxBytes: number): boolean {
    if (held.size === 0) return true;
    let free = maxBytes;
    for (const bytes of held.values()) free -= bytes;
    return free >= ESTIMATED_BYTES && (held.get(owner) ?? 0) < free;
  }

  /** The waiting owner that holds the least. If it may not start a process, the others may not either. */
  function next(held: ReadonlyMap<string, number>, maxBytes: number): string | undefined {
    const [first] = [...waiting.keys()].sort((a, b) => (held.get(a) ?? 0) - (held.get(b) ?? 0));
    return first !== undefined && mayStart(first, held, maxBytes) ? first : undefined;
  }

  /** Whether an owner without a process waits. */
  function isNewWaiting(processes: readonly P[]): boolean {
    if (waiting.size === 0) return false;
    const held = heldByOwner(processes);
    return [...waiting.keys()].some((owner) => !held.has(owner));
  }

  function reserve(owner: string): () => void {
    add(starting, owner, 1);
    return () => {
      add(starting, owner, -1);
      serve();
    };
  }

  function serve(): void {
    if (waiting.size === 0) return;
    const { processes, maxBytes } = list();
    const held = heldByOwner(processes);
    for (let owner = next(held, maxBytes); owner !== undefined; owner = next(held, maxBytes)) {
      const [request, ...later] = waiting.get(owner)!;
      waiting.delete(owner);
      if (later.length > 0) waiting.set(owner, later);
      add(held, owner, ESTIMATED_BYTES);
      request!.resolve(reserve(owner));
    }
  }

  return {
    admit: (owner) =>
      new Promise((resolve, reject) => {
        if (closed) return reject(sandboxClosed());
        waiting.set(owner, [...(waiting.get(owner) ?? []), { resolve, reject }]);
        serve();
      }),
    fit() {
      serve();
      const { processes, maxBytes } = list();
      const ended = chooseEnded(processes, maxBytes, isNewWaiting(processes) ? ESTIMATED_BYTES : 0);
      for (const one of ended) end(one);
      if (ended.length > 0) serve();
    },
    serve,
    close() {
      closed = true;
      for (const requests of waiting.values()) for (const { reject } of requests) reject(sandboxClosed());
      waiting.clear();
    },
  };
}

/** Changes a number by owner; without an entry it is 0. */
function add(numbers: Map<string, number>, owner: string, change: number): void {
  const changed = (numbers.get(owner) ?? 0) + change;
  if (changed === 0) numbers.delete(owner);
  else numbers.set(owner, changed);
}

/**
 * Chooses processes to end until the others hold at most `maxBytes - room`, each of the owner whose processes hold the
 * most: idle ones, least recently used first, then busy ones, largest first. So an owner with many sources does not end
 * the processes of others. Idle ones that would be the least recently used before their next call go first, those
 * whose next call is the latest: of sources that are called in turn, some keep their process instead of none.
 * The last busy process stays: it has a limit of its own.
 * @param room for a process of an owner that has none; only owners with more than half of the memory end runs for it
 */
export function chooseEnded<P extends MemoryUser>(
  all: readonly P[],
  maxBytes: number,
  room = 0,
  now = performance.now(),
): P[] {
  const byOwner = new Map<string, number>();
  let total = 0;
  const count = ({ ownerId, bytes }: P, sign: 1 | -1) => {
    total += sign * bytes;
    byOwner.set(ownerId, (byOwner.get(ownerId) ?? 0) + sign * bytes);
  };
  for (const one of all) count(one, 1);
  if (total <= maxBytes - room) return [];
  const bytesOf = ({ ownerId }: P) => byOwner.get(ownerId)!;
  const idle = new Set(all.filter(isIdle));
  const busy = new Set(all.filter((one) => one.busy > 0));

  /** The first in the order, of the owner that holds the most. */
  function first(among: Set<P>, isBefore: (a: P, b: P) => boolean): P | undefined {
    let chosen: P | undefined;
    for (const one of among) {
      const more = chosen ? bytesOf(one) - bytesOf(chosen) : 1;
      if (!chosen || more > 0 || (more === 0 && isBefore(one, chosen))) chosen = one;
    }
    return chosen;
  }

  function chooseIdle(): P | undefined {
    const oldest = first(idle, (a, b) => a.usedAt < b.usedAt);
    if (!oldest) return undefined;
    let chosen = oldest;
    for (const one of idle) {
      const wouldBeOldest = one.gapMs * LATE > now - oldest.usedAt;
      if (one.ownerId === oldest.ownerId && wouldBeOldest && nextCallOf(one) > nextCallOf(chosen))
        chosen = one;
    }
    return chosen;
  }

  function choose(): P | undefined {
    const unused = chooseIdle();
    if (unused) return unused;
    const largest = first(busy, (a, b) => a.bytes > b.bytes);
    if (!largest || all.length - ended.length === 1) return undefined;
    return total > maxBytes || bytesOf(largest) > maxBytes / 2 ? largest : undefined;
  }

  const ended: P[] = [];
  while (total > maxBytes - room) {
    const chosen = choose();
    if (!chosen) break;
    idle.delete(chosen);
    busy.delete(chosen);
    count(chosen, -1);
    ended.push(chosen);
  }
  return ended;
}
