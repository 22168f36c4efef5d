import { hash } from 'node:crypto';

/**
 * Dedupe strategies of a source, as pure functions: the cache before a run and the emits of the run give the events to
 * keep and the new cache. Each channel has its own cache.
 */

export type Strategy = 'unique' | 'greatest' | 'last';

/** Ids are up to 1 KB long; those that are only compared for equality are kept as marks of MARK_LENGTH characters. */
export interface Cache {
  /** unique: the marks of the ids kept, oldest first, one after the other. */
  unique?: string;
  /** greatest: the largest id. */
  greatest?: string;
  /** last: the mark of the id of the last event emitted. */
  last?: string;
}

export interface Candidate {
  id: string | number | null;
  /** Channel. */
  name: string;
}

export interface Decision {
  /** Per candidate, in the order given: kept, known, or without the id that the strategy needs. */
  verdicts: ('keep' | 'known' | 'no-id')[];
  /** By channel, the MAX_CHANNELS most recently used ones. The given object if nothing has changed; it is never modified. */
  caches: Record<string, Cache>;
}

/** Remembered channels: bounds the state of a source, which is written with each run. */
export const MAX_CHANNELS = 100;

/** Ids that `unique` remembers, first in, first out. */
export const MAX_UNIQUE_IDS = 100;

/** 72 bits of a hash in base64: a new id is mistaken for one of a hundred others once in 10^19. */
const MARK_LENGTH = 12;
const markOf = (id: string) => hash('sha256', id, 'base64').slice(0, MARK_LENGTH);

/**
 * Decides over the emits of one run.
 * @param candidates in the order in which they are to be emitted (by ts, oldest first)
 */
export function dedupe(
  strategy: Strategy | null,
  caches: Readonly<Record<string, Cache>>,
  candidates: readonly Candidate[],
): Decision {
  if (strategy === null) return { verdicts: candidates.map(() => 'keep'), caches };
  const after: Record<string, Cache> = { ...caches };
  let changed = false;
  const verdicts: Decision['verdicts'] = candidates.map(() => 'no-id');
  const channels = new Map<string, { index: number; id: string }[]>();
  candidates.forEach(({ id, name }, index) => {
    if (id === null) return;
    const members = channels.get(name) ?? [];
    members.push({ index, id: String(id) });
    channels.set(name, members);
  });
  for (const [name, members] of channels) {
    const cache = Object.hasOwn(caches, name) ? caches[name]! : {};
    const decided = DECIDE[strategy](
      cache,
      members.map(({ id }) => id),
    );
    members.forEach(({ index }, i) => {
      verdicts[index] = decided.keep[i] ? 'keep' : 'known';
    });
    if (isEqual(cache, decided.cache) && Object.keys(after).at(-1) === name) continue;
    changed = true;
    // Moved to the end: most recently used.
    delete after[name];
    Object.defineProperty(after, name, {
      value: decided.cache,
      enumerable: true,
      configurable: true,
      writable: true,
    });
  }
  const known = Object.keys(after);
  for (const name of known.slice(0, Math.max(0, known.length - MAX_CHANNELS))) delete after[name];
  return { verdicts, caches: changed ? after : caches };
}

const isEqual = (a: Cache, b: Cache) =>
  a.unique === b.unique && a.greatest === b.greatest && a.last === b.last;

type Decide = (cache: Cache, ids: readonly string[]) => { keep: boolean[]; cache: Cache };

const MARKS = new RegExp(`.{${MARK_LENGTH}}`, 'g');

/** A hit does not move the id in the queue. */
const unique: Decide = (cache, ids) => {
  const order: string[] = cache.unique?.match(MARKS) ?? [];
  const known = new Set(order);
  const keep = ids.map((id) => {
    const mark = markOf(id);
    if (known.has(mark)) return false;
    known.add(mark);
    order.push(mark);
    while (order.length > MAX_UNIQUE_IDS) known.delete(order.shift()!);
    return true;
  });
  return { keep, cache: { unique: order.join('') } };
};

/** Compared with the largest id known before the run: APIs list newest first, often without ts. */
const greatest: Decide = (cache, ids) => {
  const before = cache.greatest;
  const keep = ids.map((id) => before === undefined || compareIds(id, before) > 0);
  let largest = before;
  for (const id of ids) if (largest === undefined || compareIds(id, largest) > 0) largest = id;
  return { keep, cache: largest === undefined ? {} : { greatest: largest } };
};

/** Candidates after the last emitted id; all when it is absent. */
const last: Decide = (cache, ids) => {
  const match = cache.last === undefined ? -1 : ids.findLastIndex((id) => markOf(id) === cache.last);
  const newest = ids.at(-1);
  return {
    keep: ids.map((_, index) => index > match),
    cache: newest === undefined ? cache : { last: markOf(newest) },
  };
};

const DECIDE: Record<Strategy, Decide> = { unique, greatest, last };

const INTEGER = /^[+-]?\d+$/;

/** Numeric, exact beyond 2^53; as strings when one of them is not a number. */
export function compareIds(a: string, b: string): number {
  if (INTEGER.test(a) && INTEGER.test(b)) {
    const [x, y] = [BigInt(a), BigInt(b)];
    return x < y ? -1 : x > y ? 1 : 0;
  }
  const [x, y] = [toNumber(a), toNumber(b)];
  if (!Number.isNaN(x) && !Number.isNaN(y)) return x - y;
  return a < b ? -1 : a > b ? 1 : 0;
}

const toNumber = (text: string) => (text.trim() === '' ? Number.NaN : Number(text));
