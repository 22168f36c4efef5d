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
  /**
   * Place in the order of use, the least recently used channel first. Absent in caches of earlier versions. The order of
   * the keys does not tell it: objects list integers first, as in the channel `4711`.
   */
  used?: number;
}

export interface Candidate {
  id: string | number | null;
  /** Channel. */
  name: string;
}

/** The form of an id that a strategy compares. Depends on no cache: thousands can be computed before their turn. */
export type Key = string | Rank | null;

/** An id as `greatest` compares it. */
interface Rank {
  id: string;
  integer: bigint | undefined;
  number: number;
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
/** Of one channel: the ids of all strategies. One of the strategy in use always fits. */
const MAX_CACHE_LENGTH = (MAX_UNIQUE_IDS + 1) * MARK_LENGTH + 32;
/** UTF-8 has one form for all lone surrogates, which differ: an id may have been cut in the middle of an emoji. */
const bytesOf = (id: string) => (id.isWellFormed() ? id : Buffer.from(id, 'utf16le'));
const markOf = (id: string) => hash('sha256', bytesOf(id), 'base64').slice(0, MARK_LENGTH);

/** Null without a strategy or an id. */
export function keyOf(strategy: Strategy | null, { id }: Pick<Candidate, 'id'>): Key {
  if (strategy === null || id === null) return null;
  return strategy === 'greatest' ? rankOf(String(id)) : markOf(String(id));
}

/**
 * Decides over the emits of one run.
 * @param candidates in the order in which they are to be emitted (by ts, oldest first)
 * @param keys of the candidates, if they were computed before
 */
export function dedupe(
  strategy: Strategy | null,
  caches: Readonly<Record<string, Cache>>,
  candidates: readonly Candidate[],
  keys: readonly Key[] = candidates.map((candidate) => keyOf(strategy, candidate)),
): Decision {
  if (strategy === null) return { verdicts: candidates.map(() => 'keep'), caches };
  const before = byUse(caches);
  const verdicts: Decision['verdicts'] = candidates.map(() => 'no-id');
  const channels = new Map<string, { indexes: number[]; keys: Key[] }>();
  candidates.forEach(({ name }, index) => {
    const key = keys[index] ?? null;
    if (key === null) return;
    let members = channels.get(name);
    if (!members) {
      members = { indexes: [], keys: [] };
      channels.set(name, members);
    }
    members.indexes.push(index);
    members.keys.push(key);
  });
  const recent = [...before.keys()].slice(-channels.size);
  const areRecent = recent.length === channels.size && recent.every((name) => channels.has(name));
  let changed = channels.size > 0 && !areRecent;
  const after = new Map(before);
  for (const [name, members] of channels) {
    const cache = before.get(name) ?? {};
    const decided = (DECIDE[strategy] as Decide<Key>)(cache, members.keys);
    const next = withOthers(decided.cache, cache);
    members.indexes.forEach((index, i) => {
      verdicts[index] = decided.keep[i] ? 'keep' : 'known';
    });
    changed ||= !isEqual(cache, next);
    // Moved to the end: most recently used.
    after.delete(name);
    after.set(name, next);
  }
  if (!changed) return { verdicts, caches };
  const kept = [...after].slice(-MAX_CHANNELS);
  return {
    verdicts,
    caches: Object.fromEntries(kept.map(([name, cache], used) => [name, { ...cache, used }])),
  };
}

/** Least recently used first. A cache without a number was used last, by an earlier version, or all are of one. */
function byUse(caches: Readonly<Record<string, Cache>>): Map<string, Cache> {
  const all = Object.entries(caches);
  const newest = all.reduce((most, [, { used = 0 }]) => Math.max(most, used), 0);
  const useOf = ({ used }: Cache) => used ?? newest + 1;
  return new Map(all.sort(([, a], [, b]) => useOf(a) - useOf(b)));
}

/**
 * Keeps the ids of other strategies, for a source that returns to one of them, within MAX_CACHE_LENGTH: an id of
 * `greatest` and the marks of `unique` are both kept if that id is as short as numbers and times are.
 */
function withOthers(cache: Cache, before: Cache): Cache {
  const all = { ...cache };
  const { last = '', unique = '', greatest = '' } = cache;
  let length = last.length + unique.length + greatest.length;
  for (const field of ['last', 'unique', 'greatest'] as const) {
    const ids = before[field];
    if (all[field] !== undefined || ids === undefined) continue;
    length += ids.length;
    if (length > MAX_CACHE_LENGTH) break;
    all[field] = ids;
  }
  return all;
}

const isEqual = (a: Cache, b: Cache) =>
  a.unique === b.unique && a.greatest === b.greatest && a.last === b.last;

type Decide<K> = (cache: Cache, keys: readonly K[]) => { keep: boolean[]; cache: Cache };

const MARKS = new RegExp(`.{${MARK_LENGTH}}`, 'g');

/** A hit does not move the id in the queue. */
const unique: Decide<string> = (cache, marks) => {
  const order: string[] = cache.unique?.match(MARKS) ?? [];
  const known = new Set(order);
  let oldest = 0;
  const keep = marks.map((mark) => {
    if (known.has(mark)) return false;
    known.add(mark);
    order.push(mark);
    if (known.size > MAX_UNIQUE_IDS) known.delete(order[oldest++]!);
    return true;
  });
  return { keep, cache: { unique: order.slice(oldest).join('') } };
};

/** Compared with the largest id known before the run: APIs list newest first, often without ts. */
const greatest: Decide<Rank> = (cache, ranks) => {
  const before = cache.greatest === undefined ? undefined : rankOf(cache.greatest);
  const keep = ranks.map((rank) => before === undefined || compareRanks(rank, before) > 0);
  let largest = before;
  for (const rank of ranks) if (largest === undefined || compareRanks(rank, largest) > 0) largest = rank;
  return { keep, cache: largest === undefined ? {} : { greatest: largest.id } };
};

/** Candidates after the last emitted id; all when it is absent. */
const last: Decide<string> = (cache, marks) => {
  const match = cache.last === undefined ? -1 : marks.lastIndexOf(cache.last);
  const newest = marks.at(-1);
  return {
    keep: marks.map((_, index) => index > match),
    cache: newest === undefined ? cache : { last: newest },
  };
};

const DECIDE = { unique, greatest, last };

const INTEGER = /^[+-]?\d+$/;

const rankOf = (id: string): Rank => ({
  id,
  integer: INTEGER.test(id) ? BigInt(id) : undefined,
  number: toNumber(id),
});

/** Numeric, exact beyond 2^53; as strings when one of them is not a number. */
function compareRanks(a: Rank, b: Rank): number {
  if (a.integer !== undefined && b.integer !== undefined) {
    return a.integer < b.integer ? -1 : a.integer > b.integer ? 1 : 0;
  }
  if (!Number.isNaN(a.number) && !Number.isNaN(b.number)) return a.number - b.number;
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0;
}

const toNumber = (text: string) => (text.trim() === '' ? Number.NaN : Number(text));
