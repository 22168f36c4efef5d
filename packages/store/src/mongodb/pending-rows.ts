import type { Clock } from '@wellspring/core/clock';
import { createLru } from '@wellspring/core/lru';
import type { Db } from '@wellspring/mongodb/client';
import { translateErrors } from '@wellspring/mongodb/errors';
import { type CommitOfState, createHeldCommits, type HeldCommits } from './held-commits.ts';
import { insertInOrder } from './insert-in-order.ts';
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
const BATCH_SIZE = 100;
const CACHE_SIZE = 10_000;

/** Rows that were committed in a state document and not yet appended to their collections. */
export interface PendingRows {
  /** Stores rows that are too large for the state document; returns the value for `_pending`. */
  writeSideDocuments(commit: string, stateId: string, rows: readonly Appended[]): Promise<number>;
  /** Appends events and logs in order; skips existing rows. */
  append(rows: Appended): Promise<void>;
  /** The newest commits of this process. */
  held: HeldCommits;
  /**
   * Appends pending events and logs of these states, whichever process committed them, for a reader. The outbox rows of
   * another process stay: it is about to publish them.
   */
  complete(states: readonly StoredState[]): Promise<void>;
  /** Appends all pending rows of states that this process is about to overwrite. */
  completeAll(states: readonly StoredState[]): Promise<void>;
  /** Appends pending events and logs of a state and removes them from it, so that rows deleted later cannot reappear. */
  settle(stateId: string): Promise<void>;
  /** Appends all pending rows of a state. */
  settleAll(stateId: string): Promise<void>;
  /** Like `settleAll`, for all states with an abandoned commit. Also removes orphaned side documents. */
  completeAbandoned(): Promise<void>;
  /** Resolves when no removal is in progress. */
  close(): Promise<void>;
}

export function createPendingRows(db: Db, clock: Clock): PendingRows {
  const states = db.collection<StoredState>('states');
  const sideDocuments = db.collection<SideDocument>('pending');
  const collections = {
    events: db.collection<StoredRow>('events'),
    logs: db.collection<StoredRow>('logs'),
    outbox: db.collection<StoredRow>('outbox'),
  };
  /** By state: the commit whose events and logs were appended for a reader. */
  const completed = createLru<string>(CACHE_SIZE);
  let checkedAt = 0;
  let indexed: Promise<unknown> | undefined;
  const held = createHeldCommits(
    { appendOutbox: (rows) => insertInOrder(collections.outbox, rows), clear: clearNow },
    clock,
  );

  async function append({ events, logs }: Appended): Promise<void> {
    await Promise.all([insertInOrder(collections.events, events), insertInOrder(collections.logs, logs)]);
  }

  async function clearNow(batch: readonly CommitOfState[]): Promise<void> {
    const only = {
      _id: { $in: batch.map(({ _id }) => _id) },
      _commit: { $in: batch.map(({ _commit }) => _commit) },
    };
    // `_commit` stays: the committing process may still have to check it.
    await translateErrors(states.updateMany(only, { $unset: { _pending: '', _pending_at: '' } }));
  }

  async function appendAll(rows: Appended): Promise<void> {
    await Promise.all([append(rows), insertInOrder(collections.outbox, rows.outbox)]);
    held.appended(rows.outbox);
  }

  /** Appends the pending rows of a state. @param add of the rows of one document */
  async function appendPending(
    { _commit, _pending }: StoredState,
    add: (rows: Appended) => Promise<void>,
  ): Promise<void> {
    if (typeof _pending === 'object') await add(_pending);
    for (const _id of sideDocumentsOf(_commit, _pending)) {
      const found = await translateErrors(sideDocuments.findOne({ _id }));
      // Missing: another process has appended it.
      if (found) await add(found.rows);
    }
  }

  async function completeOne(state: StoredState): Promise<void> {
    const { _id, _commit, _pending } = state;
    if (_commit === undefined || _pending === undefined) return;
    if (held.has({ _id, _commit }) || completed.get(_id) === _commit) return;
    await appendPending(state, append);
    completed.set(_id, _commit);
  }

  /** False: there are none, or they are held by this process. */
  async function completeAll(state: StoredState): Promise<boolean> {
    const { _id, _commit, _pending } = state;
    if (_commit === undefined || _pending === undefined) return false;
    if (held.has({ _id, _commit })) return false;
    await appendPending(state, appendAll);
    const ids = sideDocumentsOf(_commit, _pending);
    if (ids.length > 0) await translateErrors(sideDocuments.deleteMany({ _id: { $in: ids } }));
    return true;
  }

  async function settleAll(stateId: string): Promise<void> {
    await held.release(stateId);
    const state = await readPending(stateId);
    if (state && (await completeAll(state))) await clearNow([state as CommitOfState]);
  }

  const readPending = (_id: string) =>
    translateErrors(states.findOne({ _id }, { projection: { _v: 1, _commit: 1, _pending: 1 } }));

  async function settle(stateId: string): Promise<void> {
    const state = await readPending(stateId);
    if (typeof state?._pending !== 'object') return settleAll(stateId);
    const { _id, _commit, _pending } = state;
    const only = { _id, _commit: _commit! };
    if (!held.has(only)) await append(_pending);
    await translateErrors(
      states.updateOne(
        { ...only, _pending: { $exists: true } },
        { $set: { '_pending.events': [], '_pending.logs': [] } },
      ),
    );
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
    held,
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
    async completeAll(found) {
      for (const state of found) await completeAll(state);
    },
    settle,
    settleAll,
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
          await settleAll(state._id);
        }
      } finally {
        await abandoned.close();
      }
      await removeOrphans();
    },
    close: held.close,
  };
}

const sideDocumentId = (commit: string, n: number) => `${commit}/${n}`;

const sideDocumentsOf = (commit: string | undefined, pending: StoredState['_pending']): string[] =>
  typeof pending === 'number' && commit !== undefined
    ? Array.from({ length: pending }, (_, n) => sideDocumentId(commit, n))
    : [];
