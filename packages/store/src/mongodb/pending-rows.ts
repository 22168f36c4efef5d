import type { Clock } from '@wellspring/core/clock';
import type { Db, Collection as Stored } from '@wellspring/mongodb/client';
import { duplicatesOf, translateErrors } from '@wellspring/mongodb/errors';
import type { StoredRow } from './row.ts';

/** The rows that a commit appends, by collection. */
export type Appended = Record<'events' | 'logs' | 'outbox', StoredRow[]>;

/** A state with the pending rows of its newest commit: `_pending` is removed shortly after the rows were appended. */
export interface StoredState extends StoredRow {
  /** Identifies the newest commit. */
  _commit?: string;
  /** Epoch ms. */
  _pending_at?: number;
  /** The rows, or the number of side documents that contain them. */
  _pending?: Appended | number;
}

/** A document in `pending` with rows of one commit. */
interface SideDocument extends StoredRow {
  state_id: string;
  at: number;
  rows: Appended;
}

/** Younger commits are presumably in progress; longer than any statement takes. */
const MIN_ABANDONED_MS = 15_000;
/** Age at which side documents of a refused or interrupted commit are removed. */
const MIN_ORPHANED_MS = 3_600_000;
const ORPHAN_INTERVAL_MS = 600_000;
const CLEAR_DELAY_MS = 100;
const BATCH_SIZE = 100;
/** Unpublished rows that a state document carries on; older and larger ones are appended to the outbox. */
const MAX_CARRIED_MS = 1_000;
const MAX_CARRIED_BYTES = 64 * 1024;

/** Rows that were committed in a state document and not yet appended to their collections. */
export interface PendingRows {
  /** Stores rows that are too large for the state document; returns the value for `_pending`. */
  writeSideDocuments(commit: string, stateId: string, rows: readonly Appended[]): Promise<number>;
  /** Appends events and logs in order; skips existing rows. */
  append(rows: Appended): Promise<void>;
  /**
   * A commit whose events and logs are appended. Its outbox rows are appended, and `_pending` is removed, after a while,
   * unless the next commit carries on what is unpublished by then.
   */
  hold(stateId: string, commit: string, outbox: readonly StoredRow[]): void;
  /** The unpublished outbox rows that the next commit of a state has to carry on. */
  carried(stateId: string): Promise<readonly StoredRow[]>;
  /** An outbox row that is only in the document of its state. */
  unpublished(id: string): StoredRow | undefined;
  /** These outbox rows are published. Returns those that may be in the outbox. */
  published(ids: readonly string[]): Promise<string[]>;
  /** Appends all unpublished outbox rows of this process. */
  releaseAll(): Promise<void>;
  /** Appends the pending rows of these states, whichever process committed them. */
  complete(states: readonly StoredState[]): Promise<void>;
  /** Appends the pending rows of a state and removes `_pending` at once, so that rows deleted later cannot reappear. */
  settle(stateId: string): Promise<void>;
  /** Like `settle`, for all states with an abandoned commit. Also removes orphaned side documents. */
  completeAbandoned(): Promise<void>;
  /** Resolves when no removal is in progress. */
  close(): Promise<void>;
}

/** A state and the commit whose rows are appended. */
interface AppendedCommit {
  _id: string;
  _commit: string;
}

/** A commit of this process whose `_pending` is not removed. */
interface HeldCommit extends AppendedCommit {
  /** Epoch ms. */
  at: number;
  outbox: readonly StoredRow[];
}

export function createPendingRows(db: Db, clock: Clock): PendingRows {
  const states = db.collection<StoredState>('states');
  const sideDocuments = db.collection<SideDocument>('pending');
  const collections = {
    events: db.collection<StoredRow>('events'),
    logs: db.collection<StoredRow>('logs'),
    outbox: db.collection<StoredRow>('outbox'),
  };
  /** By state. */
  const held = new Map<string, HeldCommit>();
  /** Outbox rows of held commits, by id. */
  const unpublished = new Map<string, StoredRow>();
  let clearing: Promise<void> | undefined;
  let releasing: Promise<unknown> = Promise.resolve();
  let checkedAt = 0;
  let indexed: Promise<unknown> | undefined;
  const closing = new AbortController();

  async function append({ events, logs }: Appended): Promise<void> {
    await Promise.all([insertInOrder(collections.events, events), insertInOrder(collections.logs, logs)]);
  }

  async function clearNow(batch: readonly AppendedCommit[]): Promise<void> {
    const only = {
      _id: { $in: batch.map(({ _id }) => _id) },
      _commit: { $in: batch.map(({ _commit }) => _commit) },
    };
    // `_commit` stays: the committing process may still have to check it.
    await translateErrors(states.updateMany(only, { $unset: { _pending: '', _pending_at: '' } }));
  }

  async function appendAll(rows: Appended): Promise<void> {
    await Promise.all([append(rows), insertInOrder(collections.outbox, rows.outbox)]);
    for (const { _id } of rows.outbox) unpublished.delete(_id);
  }

  const unpublishedOf = ({ outbox }: HeldCommit) => outbox.filter(({ _id }) => unpublished.has(_id));

  /** Appends what is unpublished of held commits to the outbox, and removes `_pending`. */
  function release(batch: readonly HeldCommit[]): Promise<void> {
    const released = releasing.then(async () => {
      const rows = batch.flatMap(unpublishedOf);
      await insertInOrder(collections.outbox, rows);
      for (const { _id } of rows) unpublished.delete(_id);
      const current = batch.filter((one) => held.get(one._id) === one);
      for (const { _id } of current) held.delete(_id);
      // After a failure the next reader of the state appends nothing, since all rows exist.
      if (current.length > 0) await clearNow(current).catch(() => {});
    });
    releasing = released.catch(() => {});
    return released;
  }

  function hold(_id: string, _commit: string, outbox: readonly StoredRow[]): void {
    for (const row of outbox) unpublished.set(row._id, row);
    held.set(_id, { _id, _commit, outbox, at: clock.now() });
    clearing ??= (async () => {
      for (let closed = false; held.size > 0 && !closed; ) {
        await clock.sleep(CLEAR_DELAY_MS, closing.signal);
        closed = closing.signal.aborted;
        const until = closed ? Number.POSITIVE_INFINITY : clock.now() - CLEAR_DELAY_MS;
        const batch = [...held.values()].filter(({ at }) => at <= until);
        // A row that cannot be appended is still in its state, and is held.
        if (batch.length > 0) await release(batch).catch(() => {});
      }
      clearing = undefined;
    })();
  }

  /** Appends the pending rows of a state; undefined if there are none. */
  async function appendPending({ _id, _commit, _pending }: StoredState): Promise<AppendedCommit | undefined> {
    if (_commit === undefined || _pending === undefined) return undefined;
    if (held.get(_id)?._commit === _commit) return undefined;
    if (typeof _pending === 'object') {
      await appendAll(_pending);
    } else {
      const ids = Array.from({ length: _pending }, (_, n) => sideDocumentId(_commit, n));
      for (const id of ids) {
        const found = await translateErrors(sideDocuments.findOne({ _id: id }));
        // Missing: another process has appended it.
        if (found) await appendAll(found.rows);
      }
      await translateErrors(sideDocuments.deleteMany({ _id: { $in: ids } }));
    }
    return { _id, _commit };
  }

  async function completeOne(state: StoredState): Promise<void> {
    const done = await appendPending(state);
    if (done) hold(done._id, done._commit, []);
  }

  async function settle(stateId: string): Promise<void> {
    const state = await translateErrors(
      states.findOne({ _id: stateId }, { projection: { _v: 1, _commit: 1, _pending: 1 } }),
    );
    const done = state && (await appendPending(state));
    if (done) await clearNow([done]);
  }

  async function removeOrphans(): Promise<void> {
    if (clock.now() - checkedAt < ORPHAN_INTERVAL_MS) return;
    checkedAt = clock.now();
    const old = { at: { $lte: clock.now() - MIN_ORPHANED_MS } };
    const orphans = await translateErrors(
      sideDocuments.find(old, { projection: { _id: 1, state_id: 1 } }).toArray(),
    );
    for (const { _id, state_id } of orphans) {
      const named = await translateErrors(states.findOne({ _id: state_id, _commit: _id.split('/')[0]! }));
      if (!named) await translateErrors(sideDocuments.deleteOne({ _id }));
    }
  }

  return {
    append,
    hold,
    async carried(stateId) {
      const one = held.get(stateId);
      const rows = one ? unpublishedOf(one) : [];
      if (!one || rows.length === 0) return [];
      const isOld = clock.now() - Number(rows[0]!.created_at_ms) > MAX_CARRIED_MS;
      const bytes = rows.reduce((sum, { message }) => sum + message.length, 0);
      if (!isOld && bytes <= MAX_CARRIED_BYTES) return rows;
      await release([one]);
      return [];
    },
    unpublished: (id) => unpublished.get(id),
    async published(ids) {
      await releasing;
      return ids.filter((id) => !unpublished.delete(id));
    },
    releaseAll: () => release([...held.values()]),
    async writeSideDocuments(commit, stateId, rows) {
      const at = clock.now();
      const documents = rows.map((some, n) => ({
        _id: sideDocumentId(commit, n),
        _v: 1,
        state_id: stateId,
        at,
        rows: some,
      }));
      for (const document of documents) await translateErrors(sideDocuments.insertOne(document));
      return documents.length;
    },
    async complete(found) {
      for (const state of found) await completeOne(state);
    },
    settle,
    async completeAbandoned() {
      indexed ??= translateErrors(
        states.createIndex({ _pending_at: 1 }, { name: 'pending_at', sparse: true }),
      );
      await indexed.catch((error) => {
        indexed = undefined;
        throw error;
      });
      const old = { _pending_at: { $lte: clock.now() - MIN_ABANDONED_MS } };
      const abandoned = states.find(old, { projection: { _id: 1 }, batchSize: BATCH_SIZE });
      try {
        for (;;) {
          const state = await translateErrors(abandoned.next());
          if (!state) break;
          // Reread: its rows may have been appended and deleted meanwhile.
          await settle(state._id);
        }
      } finally {
        await abandoned.close();
      }
      await removeOrphans();
    },
    async close() {
      closing.abort();
      await clearing;
    },
  };
}

const sideDocumentId = (commit: string, n: number) => `${commit}/${n}`;

/** Inserts rows in order, so that no row is visible before its predecessors. Idempotent, also concurrently. */
async function insertInOrder(collection: Stored<StoredRow>, rows: readonly StoredRow[]): Promise<void> {
  for (let missing = rows; missing.length > 0; ) {
    const taken = await translateErrors(collection.insertMany(missing, { ordered: true })).then(
      () => [],
      duplicatesOf,
    );
    if (taken.length === 0) return;
    // Rows before the duplicate are inserted, and may have been deleted since: continue after it.
    const rest = missing.slice(taken[0]!.index + 1);
    const ids = rest.map(({ _id }) => _id);
    const there = await translateErrors(
      collection.find({ _id: { $in: ids } }, { projection: { _id: 1 }, batchSize: ids.length + 1 }).toArray(),
    );
    const found = new Set(there.map(({ _id }) => _id));
    missing = rest.filter(({ _id }) => !found.has(_id));
  }
}
