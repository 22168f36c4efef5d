import { Unavailable } from '@wellspring/core/unavailable';
import type { Store } from '@wellspring/store/port';
import { attempts, type OverflowRow, overflow } from './collections.ts';
import { failuresOf } from './failed-attempts.ts';

export interface OverflowJob {
  id: string;
  key: string;
  payload: string;
  publishedAt: number;
  redelivered: true | undefined;
}

export interface OverflowEvents {
  /** The next job of a key, in order. */
  loaded(row: OverflowRow, failures: number): void;
  /** Number of jobs of the key in memory. */
  countInMemory(key: string): number;
  /** The job is in memory, or done and its row about to be removed. */
  isKnown(id: string): boolean;
  isInMemory(id: string): boolean;
}

export interface OverflowOptions {
  store: Store;
  /** Name of the partition. */
  name: string;
  /** Of its lease. */
  epoch: number;
  /** Retries until it succeeds; undefined: the partition was released first. */
  persist<T>(what: string, work: () => Promise<T>): Promise<T | undefined>;
  /** Maximum number of jobs of a slow key in memory. */
  maxInMemory(): number;
}

/**
 * Jobs of slow keys of one partition, as rows of the store, in order and without a limit; the first of each key are in
 * memory. A key is *overflowing* while it may have rows that are not in memory: new jobs of it are appended to them.
 *
 * The epoch of the lease begins each `seq`: rows of a later holder follow those of a former one, which can neither read
 * nor remove them.
 */
export interface Overflow {
  isOverflowing(key: string): boolean;
  /**
   * Appends jobs in the order of the calls; their keys are overflowing from now on. Resolves with their `seq` when they
   * are durable; undefined: the partition was released first.
   */
  append(jobs: readonly OverflowJob[]): Promise<number[] | undefined>;
  /**
   * All rows of the key up to `seq` are in memory; it was not overflowing before they were appended.
   * @param isComplete false: some of them are done and will be removed
   */
  loadedUpTo(key: string, seq: number, isComplete: boolean): void;
  /** Loads more rows when few jobs of the key are left in memory. */
  refill(key: string): void;
  /** Finds keys with rows of a former owner of the partition. */
  find(): Promise<void>;
  remove(ids: readonly string[]): Promise<void>;
  /** Removes the rows that are not in memory. */
  purge(isPurged: (key: string) => boolean): void;
  /** Resolves when all appends and purges are done. */
  settled(): Promise<unknown>;
}

const INSERT_BATCH = 500;
/** Rereads of a page that is too short; with the backoff about 1.5 s, in which a store that failed over catches up. */
const MAX_REREADS = 4;

/** More rows than one holder appends to a partition. */
const ROWS_PER_EPOCH = 2 ** 32;

interface KeyState {
  /** `seq` of the last row in memory or done. */
  after: number;
  /** `seq` of the last row appended by this process; later reads must reach it. */
  appendedUpTo: number;
  /** `seq` of the last row of a former owner, which may have finished jobs without removing their rows. */
  foundUpTo: number;
  /** Appends in progress. */
  appending: number;
  /** Incremented by each append. */
  version: number;
  loading: boolean;
}

interface Append {
  rows: OverflowRow[];
  states: Map<string, KeyState>;
  resolve(seqs: number[] | undefined): void;
}

export function createOverflow(
  { store, name, epoch, persist, maxInMemory }: OverflowOptions,
  { loaded, countInMemory, isKnown, isInMemory }: OverflowEvents,
): Overflow {
  const rows = store.collection(overflow);
  const attemptRows = store.collection(attempts);
  const states = new Map<string, KeyState>();
  let nextSeq = epoch * ROWS_PER_EPOCH;
  const end = nextSeq + ROWS_PER_EPOCH;
  /** Serializes appends and purges. */
  let writes: Promise<unknown> = Promise.resolve();
  let buffer: Append[] = [];

  function startOverflow(key: string): KeyState {
    let state = states.get(key);
    if (!state) {
      state = { after: 0, appendedUpTo: 0, foundUpTo: 0, appending: 0, version: 0, loading: false };
      states.set(key, state);
    }
    return state;
  }

  async function flush(): Promise<void> {
    const batch = buffer;
    buffer = [];
    const all = batch.flatMap((one) => one.rows);
    const done = await persist('append to overflow', async () => {
      for (let at = 0; at < all.length; at += INSERT_BATCH)
        await rows.insertMany(all.slice(at, at + INSERT_BATCH));
      return true;
    });
    for (const one of batch) {
      for (const state of one.states.values()) {
        state.appending -= 1;
        state.version += 1;
      }
      if (done) for (const { key, seq } of one.rows) one.states.get(key)!.appendedUpTo = seq;
      one.resolve(done ? one.rows.map(({ seq }) => seq) : undefined);
    }
  }

  async function remove(ids: readonly string[]): Promise<void> {
    await rows.removeWhere({ id: { in: ids }, seq: { lt: end } });
  }

  async function load(key: string, state: KeyState): Promise<void> {
    const { version, after } = state;
    const limit = maxInMemory();
    let rereads = 0;
    const page = await persist('load overflow', async () => {
      const found = await rows.list({
        where: { partition: name, key, seq: { gt: after, lt: end } },
        orderBy: 'seq',
        order: 'asc',
        limit,
      });
      const last = found.at(-1)?.seq ?? after;
      // A store that has just failed over may return stale data.
      const isStale = found.length < limit && last < state.appendedUpTo && states.get(key) === state;
      if (isStale && ++rereads <= MAX_REREADS) {
        throw new Unavailable('Stale read: the page ends before the last append.');
      }
      return { found, failures: await failuresOf(attemptRows, found) };
    });
    // Purged or released.
    if (!page || states.get(key) !== state) return;
    state.loading = false;
    // A former owner may have written rows of jobs that were then redelivered and are done.
    const done: string[] = [];
    for (const row of page.found) {
      state.after = row.seq;
      if (isKnown(row.id)) {
        if (!isInMemory(row.id)) done.push(row.id);
        continue;
      }
      const found = row.seq <= state.foundUpTo ? { ...row, redelivered: true as const } : row;
      loaded(found, page.failures.get(row.id) ?? 0);
    }
    if (done.length > 0) void persist('remove from overflow', () => remove(done));
    const isComplete = page.found.length < limit && state.version === version && state.appending === 0;
    if (isComplete) states.delete(key);
    else refill(key);
  }

  function refill(key: string): void {
    const state = states.get(key);
    if (!state || state.loading || state.appending > 0 || countInMemory(key) > maxInMemory() / 2) return;
    state.loading = true;
    void load(key, state);
  }

  return {
    isOverflowing: (key) => states.has(key),
    append(jobs) {
      const states = new Map(jobs.map(({ key }) => [key, startOverflow(key)]));
      for (const state of states.values()) state.appending += 1;
      const appended = jobs.map(({ id, key, payload, publishedAt, redelivered }) => {
        const seq = nextSeq++;
        const row = { id, partition: name, key, seq, payload, published_at: publishedAt };
        return redelivered ? { ...row, redelivered } : row;
      });
      return new Promise((resolve) => {
        buffer.push({ rows: appended, states, resolve });
        if (buffer.length === 1) writes = writes.then(flush);
      });
    },
    loadedUpTo(key, seq, isComplete) {
      const state = states.get(key);
      if (!state) return;
      state.after = Math.max(state.after, seq);
      if (!isComplete) state.appendedUpTo = 0;
    },
    refill,
    async find() {
      for (let after = ''; ; ) {
        const where = { partition: name, key: { gt: after }, seq: { lt: end } };
        const [first] = await rows.list({ where, orderBy: 'key', order: 'asc', limit: 1 });
        if (!first) return;
        after = first.key;
        const [last] = await rows.list({
          where: { partition: name, key: after, seq: { lt: end } },
          orderBy: 'seq',
          order: 'desc',
          limit: 1,
        });
        // Rows behind jobs in memory are found by the next call.
        if (states.has(after) || countInMemory(after) > 0) continue;
        startOverflow(after).foundUpTo = last?.seq ?? 0;
        refill(after);
      }
    },
    remove,
    purge(isPurged) {
      const keys = [...states.keys()].filter(isPurged);
      for (const key of keys) states.delete(key);
      writes = writes.then(() =>
        persist('purge overflow', async () => {
          for (const key of keys) await rows.removeWhere({ partition: name, key, seq: { lt: end } });
        }),
      );
    },
    settled: () => writes,
  };
}
