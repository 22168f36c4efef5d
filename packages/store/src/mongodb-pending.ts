import type { Clock } from '@wellspring/core/clock';
import type { Db, Collection as Stored } from '@wellspring/mongodb/client';
import { answered, duplicatesOf } from '@wellspring/mongodb/errors';
import type { StoredRow } from './mongodb-row.ts';

/** The collections that a commit appends to, and the rows as they will stand there. */
export type Appended = Record<'events' | 'logs' | 'outbox', StoredRow[]>;

/**
 * A state with what its newest commit has not yet been seen to append: `_pending` and its time are there from the
 * commit until the rows are in their collections, and a moment longer.
 */
export interface StoredState extends StoredRow {
  /** Names the newest commit. */
  _commit?: string;
  /** Epoch ms. */
  _pending_at?: number;
  /** The rows, or the number of documents in `pending` that hold them when they are too large. */
  _pending?: Appended | number;
}

/** A part of the rows of one commit. */
interface Part extends StoredRow {
  state_id: string;
  at: number;
  rows: Appended;
}

/** A commit that is younger is most likely still under way; longer than any statement takes. */
const YOUNG_MS = 15_000;
/** Parts that no state names, of a commit that was refused or cut off, go after this time. */
const LOST_PART_MS = 3_600_000;
/** How often they are looked for. */
const LOOK_MS = 600_000;
const CLEAR_MS = 100;
const BATCH = 100;

/** What was committed with a state and has yet to be appended to the collections. */
export interface Pending {
  /** Keeps rows that are too large for the state; gives what the state is to have instead. */
  putAside(commit: string, stateId: string, rows: readonly Appended[]): Promise<number>;
  /** Appends the rows in their order; those that are there already stay. */
  append(rows: Appended): Promise<void>;
  /** Soon takes what is appended out of the state, unless the next commit has done so. */
  clear(stateId: string, commit: string): void;
  /** Appends what these states were committed with, wherever the process is that should have done it. */
  complete(states: readonly StoredState[]): Promise<void>;
  /**
   * Appends what the state was committed with, and takes it out of the state at once: what is removed from the
   * collections afterwards does not come back from there.
   */
  settle(stateId: string): Promise<void>;
  /** As complete, for all states that nobody can be working on any more. */
  completeAbandoned(): Promise<void>;
  /** Resolves when nothing is to be cleared any more. */
  close(): Promise<void>;
}

/** A state, and the commit whose rows are appended. */
interface Committed {
  _id: string;
  _commit: string;
}

export function createPending(db: Db, clock: Clock): Pending {
  const states = db.collection<StoredState>('states');
  const parts = db.collection<Part>('pending');
  const collections = {
    events: db.collection<StoredRow>('events'),
    logs: db.collection<StoredRow>('logs'),
    outbox: db.collection<StoredRow>('outbox'),
  };
  let cleared: Committed[] = [];
  let clearing: Promise<void> | undefined;
  let lookedAt = 0;
  let indexed: Promise<unknown> | undefined;
  const closing = new AbortController();

  async function append(rows: Appended): Promise<void> {
    const kinds = Object.keys(collections) as (keyof Appended)[];
    await Promise.all(kinds.map((kind) => insertInOrder(collections[kind], rows[kind])));
  }

  async function clearAll(batch: readonly Committed[]): Promise<void> {
    const only = {
      _id: { $in: batch.map(({ _id }) => _id) },
      _commit: { $in: batch.map(({ _commit }) => _commit) },
    };
    // Who has committed may still have to see that it was this commit.
    await answered(states.updateMany(only, { $unset: { _pending: '', _pending_at: '' } }));
  }

  function clear(stateId: string, commit: string): void {
    cleared.push({ _id: stateId, _commit: commit });
    clearing ??= (async () => {
      do {
        await clock.sleep(CLEAR_MS, closing.signal);
        const batch = cleared;
        cleared = [];
        // Should this fail, whoever reads the state next finds that all of it is there already.
        await clearAll(batch).catch(() => {});
      } while (cleared.length > 0);
      clearing = undefined;
    })();
  }

  /** Appends what the state carries; undefined: nothing. */
  async function appendOf({ _id, _commit, _pending }: StoredState): Promise<Committed | undefined> {
    if (_commit === undefined || _pending === undefined) return undefined;
    if (typeof _pending === 'object') {
      await append(_pending);
    } else {
      const ids = Array.from({ length: _pending }, (_, n) => partId(_commit, n));
      for (const id of ids) {
        const part = await answered(parts.findOne({ _id: id }));
        // Gone: somebody else has appended it.
        if (part) await append(part.rows);
      }
      await answered(parts.deleteMany({ _id: { $in: ids } }));
    }
    return { _id, _commit };
  }

  async function completeOne(state: StoredState): Promise<void> {
    const done = await appendOf(state);
    if (done) clear(done._id, done._commit);
  }

  async function settle(stateId: string): Promise<void> {
    const state = await answered(
      states.findOne({ _id: stateId }, { projection: { _v: 1, _commit: 1, _pending: 1 } }),
    );
    const done = state && (await appendOf(state));
    if (done) await clearAll([done]);
  }

  async function removeLostParts(): Promise<void> {
    if (clock.now() - lookedAt < LOOK_MS) return;
    lookedAt = clock.now();
    const old = { at: { $lte: clock.now() - LOST_PART_MS } };
    const lost = await answered(parts.find(old, { projection: { _id: 1, state_id: 1 } }).toArray());
    for (const { _id, state_id } of lost) {
      const named = await answered(states.findOne({ _id: state_id, _commit: _id.split('/')[0]! }));
      if (!named) await answered(parts.deleteOne({ _id }));
    }
  }

  return {
    append,
    clear,
    async putAside(commit, stateId, rows) {
      const at = clock.now();
      const documents = rows.map((some, n) => ({
        _id: partId(commit, n),
        _v: 1,
        state_id: stateId,
        at,
        rows: some,
      }));
      for (const document of documents) await answered(parts.insertOne(document));
      return documents.length;
    },
    async complete(found) {
      for (const state of found) await completeOne(state);
    },
    settle,
    async completeAbandoned() {
      indexed ??= answered(states.createIndex({ _pending_at: 1 }, { name: 'pending_at', sparse: true }));
      await indexed.catch((error) => {
        indexed = undefined;
        throw error;
      });
      const old = { _pending_at: { $lte: clock.now() - YOUNG_MS } };
      const abandoned = states.find(old, { projection: { _id: 1 }, batchSize: BATCH });
      try {
        for (;;) {
          const state = await answered(abandoned.next());
          if (!state) break;
          // Read anew: what it carried may have been appended and removed meanwhile.
          await settle(state._id);
        }
      } finally {
        await abandoned.close();
      }
      await removeLostParts();
    },
    async close() {
      closing.abort();
      await clearing;
    },
  };
}

const partId = (commit: string, n: number) => `${commit}/${n}`;

/**
 * Inserts rows that nobody sees without those before them. Whoever does it again, also at the same time, inserts what
 * is missing.
 */
async function insertInOrder(collection: Stored<StoredRow>, rows: readonly StoredRow[]): Promise<void> {
  for (let missing = rows; missing.length > 0; ) {
    const taken = await answered(collection.insertMany(missing, { ordered: true })).then(
      () => [],
      duplicatesOf,
    );
    if (taken.length === 0) return;
    // Those before it are inserted now; somebody may have removed them since.
    const rest = missing.slice(taken[0]!.index + 1);
    const ids = rest.map(({ _id }) => _id);
    const there = await answered(
      collection.find({ _id: { $in: ids } }, { projection: { _id: 1 }, batchSize: ids.length + 1 }).toArray(),
    );
    const found = new Set(there.map(({ _id }) => _id));
    missing = rest.filter(({ _id }) => !found.has(_id));
  }
}
