import { Unavailable } from '@wellspring/core/unavailable';
import type { Collection, Store } from '@wellspring/store/port';
import { type AttemptsRow, attempts, type InboxRow, inbox } from './rabbitmq-rows.ts';

/** A job as it goes to the inbox. */
export interface Slow {
  id: string;
  key: string;
  payload: string;
  publishedAt: number;
  redelivered: true | undefined;
}

export interface InboxEvents {
  /** The next job of a key, in order. */
  loaded(row: InboxRow, failures: number): void;
  /** How many jobs of the key are in memory. */
  here(key: string): number;
  /** The job is in memory, or done and about to leave the inbox. */
  isKnown(id: string): boolean;
}

export interface InboxOptions {
  store: Store;
  /** Of the partition. */
  name: string;
  /** Tries until it succeeds; undefined: the partition was released first. */
  persist<T>(what: string, work: () => Promise<T>): Promise<T | undefined>;
  /** How many jobs of a slow key are to be in memory. */
  room(): number;
}

/**
 * The jobs of slow keys of one partition, in order and without a limit: rows, of which the first of each key are in
 * memory. A key is *behind* while it may have rows that are not: whatever arrives of it goes behind them.
 */
export interface Inbox {
  isBehind(key: string): boolean;
  /**
   * Appends jobs, in the order of the calls; their keys are behind from now on. Resolves when they are durable, with
   * their places; undefined: the partition was released first.
   */
  append(jobs: readonly Slow[]): Promise<number[] | undefined>;
  /**
   * All up to this place is in memory, of a key that was not behind before its jobs were appended.
   * @param isWhole false: some of them are done, and leave the inbox again
   */
  hasUpTo(key: string, seq: number, isWhole: boolean): void;
  /** Loads what there is room for, now that jobs of the key are done or were appended. */
  refill(key: string): void;
  /** Finds keys with rows that nobody here knows of: after the partition was taken, and now and then. */
  find(): Promise<void>;
  remove(ids: readonly string[]): Promise<void>;
  /** Drops the rows that are not in memory. */
  purge(isPurged: (key: string) => boolean): void;
  /** Resolves when all that was to be appended or purged is. */
  settled(): Promise<unknown>;
}

const AT_ONCE = 500;
/** At a page that should be longer: within a second and a half, the store has caught up. */
const MOST_LOOKS = 4;

interface Behind {
  /** Of the last row that is known to be in memory, or done. */
  after: number;
  /** Of the last row that was appended here; what is read afterwards has to reach it. */
  upTo: number;
  /** Of the last row that was found: who had it before may have done some of them and not removed their rows. */
  foundUpTo: number;
  /** Jobs that are being appended. */
  appending: number;
  /** Rises when some have been. */
  version: number;
  loading: boolean;
}

interface Append {
  rows: InboxRow[];
  states: Map<string, Behind>;
  resolve(places: number[] | undefined): void;
}

export function createInbox(
  { store, name, persist, room }: InboxOptions,
  { loaded, here, isKnown }: InboxEvents,
): Inbox {
  const rows = store.collection(inbox);
  const attemptRows = store.collection(attempts);
  const behind = new Map<string, Behind>();
  let nextSeq = 1;
  /** What is appended and purged comes one after the other. */
  let turn: Promise<unknown> = Promise.resolve();
  let buffer: Append[] = [];

  function begin(key: string): Behind {
    let state = behind.get(key);
    if (!state) {
      state = { after: 0, upTo: 0, foundUpTo: 0, appending: 0, version: 0, loading: false };
      behind.set(key, state);
    }
    return state;
  }

  /** All that has gathered since the last time. */
  async function flush(): Promise<void> {
    const batch = buffer;
    buffer = [];
    const all = batch.flatMap((one) => one.rows);
    const done = await persist('slow jobs', async () => {
      for (let at = 0; at < all.length; at += AT_ONCE) await rows.insertMany(all.slice(at, at + AT_ONCE));
      return true;
    });
    for (const one of batch) {
      for (const state of one.states.values()) {
        state.appending -= 1;
        state.version += 1;
      }
      if (done) for (const { key, seq } of one.rows) one.states.get(key)!.upTo = seq;
      one.resolve(done ? one.rows.map(({ seq }) => seq) : undefined);
    }
  }

  async function load(key: string, state: Behind): Promise<void> {
    const { version, after } = state;
    const limit = room();
    let looks = 0;
    const page = await persist('a page of the inbox', async () => {
      const found = await rows.list({
        where: { partition: name, key, seq: { gt: after } },
        orderBy: 'seq',
        order: 'asc',
        limit,
      });
      const last = found.at(-1)?.seq ?? after;
      // A store that has just failed over may for a moment show what was there before.
      const isOld = found.length < limit && last < state.upTo && behind.get(key) === state;
      if (isOld && ++looks <= MOST_LOOKS) {
        throw new Unavailable('The store shows less than what was appended.');
      }
      return { found, failures: await failuresOf(attemptRows, found) };
    });
    // Purged or released meanwhile.
    if (!page || behind.get(key) !== state) return;
    state.loading = false;
    for (const row of page.found) {
      state.after = row.seq;
      if (isKnown(row.id)) continue;
      const found = row.seq <= state.foundUpTo ? { ...row, redelivered: true as const } : row;
      loaded(found, page.failures.get(row.id) ?? 0);
    }
    const isAll = page.found.length < limit && state.version === version && state.appending === 0;
    if (isAll) behind.delete(key);
    else refill(key);
  }

  function refill(key: string): void {
    const state = behind.get(key);
    if (!state || state.loading || state.appending > 0 || here(key) > room() / 2) return;
    state.loading = true;
    void load(key, state);
  }

  return {
    isBehind: (key) => behind.has(key),
    append(jobs) {
      const states = new Map(jobs.map(({ key }) => [key, begin(key)]));
      for (const state of states.values()) state.appending += 1;
      const appended = jobs.map(({ id, key, payload, publishedAt, redelivered }) => {
        const seq = nextSeq++;
        const row = { id, partition: name, key, seq, payload, published_at: publishedAt };
        return redelivered ? { ...row, redelivered } : row;
      });
      return new Promise((resolve) => {
        buffer.push({ rows: appended, states, resolve });
        if (buffer.length === 1) turn = turn.then(flush);
      });
    },
    hasUpTo(key, seq, isWhole) {
      const state = behind.get(key);
      if (!state) return;
      state.after = Math.max(state.after, seq);
      if (!isWhole) state.upTo = 0;
    },
    refill,
    async find() {
      for (let after = ''; ; ) {
        const where = { partition: name, key: { gt: after } };
        const [first] = await rows.list({ where, orderBy: 'key', order: 'asc', limit: 1 });
        if (!first) return;
        after = first.key;
        const [last] = await rows.list({
          where: { partition: name, key: after },
          orderBy: 'seq',
          order: 'desc',
          limit: 1,
        });
        nextSeq = Math.max(nextSeq, (last?.seq ?? 0) + 1);
        // What is in memory comes first; should these rows be others, they are found the next time.
        if (behind.has(after) || here(after) > 0 || isKnown(first.id)) continue;
        begin(after).foundUpTo = last?.seq ?? 0;
        refill(after);
      }
    },
    async remove(ids) {
      await rows.removeWhere({ id: { in: ids } });
    },
    purge(isPurged) {
      const keys = [...behind.keys()].filter(isPurged);
      for (const key of keys) behind.delete(key);
      turn = turn.then(() =>
        persist('a purge', async () => {
          for (const key of keys) await rows.removeWhere({ partition: name, key });
        }),
      );
    },
    settled: () => turn,
  };
}

/** By id of the job; one statement for all. */
export async function failuresOf(
  rows: Collection<AttemptsRow>,
  jobs: readonly { id: string }[],
): Promise<Map<string, number>> {
  if (jobs.length === 0) return new Map();
  const found = await rows.list({ where: { id: { in: jobs.map(({ id }) => id) } }, limit: jobs.length });
  return new Map(found.map(({ id, attempts: failures }) => [id, failures]));
}
