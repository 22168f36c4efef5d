import { createLru } from '@wellspring/core/lru';
import type { Db } from '@wellspring/mongodb/client';
import { duplicatesOf, translateErrors } from '@wellspring/mongodb/errors';
import { events } from '../collections/events.ts';
import { states } from '../collections/states.ts';
import { ConflictError } from '../port.ts';
import type { RunCommit } from '../run-commit.ts';
import type { Appended, PendingRows, StoredState } from './pending-rows.ts';
import type { StoredRow } from './row.ts';
import { documentsOf, joinRows, MAX_BYTES, type RunDocuments, splitRows } from './run-documents.ts';
import { shareStatements } from './share-statements.ts';

/** Concurrent batches, and the bytes of one. */
const SHARING = { batches: 2, maxSize: 2 * MAX_BYTES };
/** Assumed bytes of a state. */
const STATE_BYTES = 8 * 1024;
/** States whose rows are known to be appended; others are read before they are written. */
const CACHE_SIZE = 50_000;

/**
 * Of a commit: written, now or by an earlier attempt; refused because of the state's version or epoch; or in conflict with
 * older rows.
 */
type Outcome = 'written' | 'refused' | 'conflict';

/**
 * Commits runs. The write of the state document is the commit: it contains the rows until they are appended to their
 * collections, by this process or by the next reader of the state (see PendingRows). Concurrent commits of several
 * emitters share statements: one for the states, one per collection.
 *
 * The write of the state checks that sort keys increase within each stream. So a duplicate found when appending is the
 * same row, and a reader who has seen a row has seen all rows before it.
 */
export function createCommits(
  db: Db,
  pending: PendingRows,
  now: () => number,
): (commit: RunCommit) => Promise<boolean> {
  const stored = db.collection<StoredState>(states.name);
  /** By state: the version whose rows are all appended. */
  const appended = createLru<number>(CACHE_SIZE);
  /** Of commits that may be tried again. */
  const tokens = new WeakMap<RunCommit, string>();

  async function writeAll(batch: readonly RunDocuments[]): Promise<Outcome[]> {
    try {
      const decided = await completeUnknown(batch);
      const current = batch.filter((one) => !decided.has(one));
      const refused = current.length === 0 ? new Map() : await writeRows(current);
      return batch.map((one) => {
        const outcome = decided.get(one) ?? refused.get(one) ?? 'written';
        if (outcome === 'written') appended.set(one.id, one.ifVersion + 1);
        else appended.delete(one.id);
        return outcome;
      });
    } catch (error) {
      for (const { id } of batch) appended.delete(id);
      throw error;
    }
  }

  /** Returns the commits that were not written. */
  async function writeRows(batch: readonly RunDocuments[]): Promise<Map<RunDocuments, Outcome>> {
    const stored = new Map<RunDocuments, { pending: Appended | number; carried: readonly StoredRow[] }>();
    for (const one of batch) {
      const isLarge = one.size > MAX_BYTES;
      const carried = await pending.held.carried(one.id, isLarge);
      const rows = { ...one.rows, outbox: [...carried, ...one.rows.outbox] };
      stored.set(one, {
        pending: isLarge ? await pending.writeSideDocuments(one.token, one.id, splitRows(rows)) : rows,
        carried,
      });
    }
    const refused = await writeStates(batch, (one) => stored.get(one)!.pending);
    const written = batch.filter((one) => !refused.has(one));
    const small = written.filter(({ size }) => size <= MAX_BYTES);
    await pending.append(joinRows(small.map(({ rows }) => rows)));
    for (const one of written) {
      const { id, token, ifVersion, rows } = one;
      const { pending: _pending, carried } = stored.get(one)!;
      const isLarge = typeof _pending === 'number';
      if (isLarge) await pending.completeAll([{ _id: id, _v: ifVersion + 1, _commit: token, _pending }]);
      pending.held.hold({ _id: id, _commit: token }, isLarge ? [] : rows.outbox, carried);
    }
    return refused;
  }

  /**
   * Appends the pending rows of the states about to be overwritten. Returns the commits that are not to be written: those
   * that an earlier attempt has written, whose answer was lost; and those whose state could not be read in the expected
   * version: it was overtaken, or the read was stale. After an election the new primary may briefly serve older majority
   * reads while it already overwrites newer data.
   */
  async function completeUnknown(
    batch: readonly RunDocuments[],
  ): Promise<ReadonlyMap<RunDocuments, Outcome>> {
    const unknown = batch.filter(({ id, ifVersion }) => ifVersion > 0 && appended.get(id) !== ifVersion);
    if (unknown.length === 0) return new Map();
    const ids = unknown.map(({ id }) => id);
    const projection = { _v: 1, _commit: 1, _pending: 1 };
    const found = await translateErrors(
      stored.find({ _id: { $in: ids } }, { projection, batchSize: ids.length + 1 }).toArray(),
    );
    await pending.completeAll(found);
    for (const { _id, _v } of found) appended.set(_id, _v);
    const newest = new Map(found.map(({ _id, _commit }) => [_id, _commit]));
    return new Map(
      unknown
        .filter(({ id, ifVersion }) => appended.get(id) !== ifVersion)
        .map((one) => [one, newest.get(one.id) === one.token ? 'written' : 'refused']),
    );
  }

  async function writeStates(
    batch: readonly RunDocuments[],
    pendingOf: (one: RunDocuments) => Appended | number,
  ): Promise<Map<RunDocuments, Outcome>> {
    const at = now();
    const updates = batch.filter(({ ifVersion }) => ifVersion > 0).length;
    const allMatched = await translateErrors(
      stored.bulkWrite(
        batch.map((one) => operationOf(one, pendingOf(one), at)),
        { ordered: false },
      ),
    ).then(
      ({ matchedCount }) => matchedCount === updates,
      (error) => duplicatesOf(error).length === 0,
    );
    const refused = new Map<RunDocuments, Outcome>();
    if (allMatched) return refused;
    const ids = batch.map(({ id }) => id);
    const options = {
      projection: { _v: 1, _commit: 1, epoch: 1 },
      batchSize: ids.length + 1,
      // A majority read may be older than the state that refused the write, and that answer waited for the majority.
      readConcern: { level: 'local' as const },
    };
    const found = await translateErrors(stored.find({ _id: { $in: ids } }, options).toArray());
    const byId = new Map(found.map((state) => [state._id, state]));
    for (const one of batch) {
      const state = byId.get(one.id);
      if (state?._commit === one.token) continue;
      const fits = state?._v === one.ifVersion && state.epoch <= one.epoch;
      refused.set(one, fits ? 'conflict' : 'refused');
    }
    return refused;
  }

  function operationOf(one: RunDocuments, _pending: Appended | number, at: number) {
    const { id, token, ifVersion, epoch, increasing } = one;
    const document = { ...one.state, _commit: token, _pending_at: at, _pending } as StoredState;
    return ifVersion === 0
      ? { insertOne: { document: { ...document, _id: id } } }
      : {
          updateOne: {
            filter: { $and: [{ _id: id, _v: ifVersion, epoch: { $lte: epoch } }, ...increasing] },
            update: { $set: document },
          },
        };
  }

  const write = shareStatements(SHARING, writeAll);
  return async (commit) => {
    const made = await documentsOf(commit);
    const { id, size } = made;
    // A large one has side documents under its token.
    const token = size > MAX_BYTES ? made.token : (tokens.get(commit) ?? made.token);
    tokens.set(commit, token);
    const outcome = await write({ ...made, token }, { key: id, size: size + STATE_BYTES });
    if (outcome === 'conflict') throw new ConflictError(events.name, ['id']);
    return outcome === 'written';
  };
}
