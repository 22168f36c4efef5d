import { createLru } from '@wellspring/core/lru';
import type { Db, Document } from '@wellspring/mongodb/client';
import { duplicatesOf, translateErrors } from '@wellspring/mongodb/errors';
import { events } from '../collections/events.ts';
import { states } from '../collections/states.ts';
import { ConflictError } from '../port.ts';
import type { RunCommit } from '../run-commit.ts';
import {
  type CoalescedCommit,
  coalesce,
  joinRows,
  MAX_BYTES,
  prepare,
  type SentCommit,
  splitRows,
  startCoalesced,
  type WaitingCommit,
} from './coalesced-commit.ts';
import type { PendingRows, StoredState } from './pending-rows.ts';
import { createCodec, encodeString } from './row.ts';

/** Concurrent batches; a state is in at most one of them. */
const MAX_BATCHES = 2;
/** Coalesced commits per batch. */
const BATCH_SIZE = 500;
/** States whose rows are known to be appended; others are read before they are written. */
const CACHE_SIZE = 50_000;

/** Of a refusal: the state has another version, or a sort key does not increase. */
type Reason = 'version' | 'sort-key';

const epochOf = ({ waiting }: CoalescedCommit) => waiting.at(-1)!.commit.state.epoch;

export interface Commits {
  commitRun(commit: RunCommit): Promise<boolean>;
  /** To be called when the pending rows of these states have been appended. */
  completed(states: readonly StoredState[]): void;
}

/**
 * Commits runs. The write of the state document is the commit: it contains the rows until they are appended to their
 * collections, by this process or by the next reader of the state (see PendingRows). Concurrent commits of several
 * emitters share statements: one for the states, one per collection.
 *
 * A version alone does not identify a state: after a refusal, another process may have written the version that this
 * process expects. Therefore a commit based on an unconfirmed one also checks `_commit`.
 *
 * The write of the state checks that sort keys increase within each stream. So a duplicate found when appending is the
 * same row, and a reader who has seen a row has seen all rows before it.
 */
export function createCommits(db: Db, pending: PendingRows, now: () => number): Commits {
  const stored = db.collection<StoredState>(states.name);
  const codec = createCodec(states);
  const queues = new Map<string, WaitingCommit[]>();
  const busy = new Set<string>();
  /** By state, while commits of it wait: the last one sent. */
  const lastSent = new Map<string, SentCommit>();
  /** By state: the version whose rows are all appended. */
  const appended = createLru<number>(CACHE_SIZE);
  let batches = 0;
  let scheduled = false;

  /** Collects the commits of a turn, and those that arrive while all batches are in progress. */
  function schedule(): void {
    if (scheduled || batches >= MAX_BATCHES || queues.size === 0) return;
    scheduled = true;
    setImmediate(() => {
      scheduled = false;
      const batch = takeBatch();
      if (batch.length === 0) return;
      batches += 1;
      void writeAll(batch).then(() => {
        batches -= 1;
        for (const { id } of batch) {
          busy.delete(id);
          if (!queues.has(id)) lastSent.delete(id);
        }
        schedule();
      });
    });
  }

  function takeBatch(): CoalescedCommit[] {
    const batch: CoalescedCommit[] = [];
    for (const [id, queue] of queues) {
      if (busy.has(id)) continue;
      if (batch.length === BATCH_SIZE) break;
      const coalesced = startCoalesced(queue.shift()!, lastSent.get(id));
      while (queue.length > 0 && coalesce(coalesced, queue[0]!)) queue.shift();
      if (queue.length === 0) queues.delete(id);
      busy.add(id);
      lastSent.set(id, coalesced);
      batch.push(coalesced);
    }
    return batch;
  }

  /** Writes a batch and settles its commits. Never rejects. */
  async function writeAll(batch: readonly CoalescedCommit[]): Promise<void> {
    try {
      const overtaken = await completeUnknown(batch);
      for (const one of overtaken) refuse(one, 'version');
      const current = batch.filter((one) => !overtaken.has(one));
      if (current.length === 0) return;
      const sideDocuments = new Map<CoalescedCommit, number>();
      for (const one of current) {
        if (one.size <= MAX_BYTES) continue;
        sideDocuments.set(one, await pending.writeSideDocuments(one.token, one.id, splitRows(one.rows)));
      }
      const refused = await writeStates(current, sideDocuments);
      const written = current.filter((one) => !refused.has(one));
      await pending.append(
        joinRows(written.filter((one) => !sideDocuments.has(one)).map(({ rows }) => rows)),
      );
      for (const one of written) {
        const { id, token, version } = one;
        const _pending = sideDocuments.get(one);
        if (_pending !== undefined)
          await pending.complete([{ _id: id, _v: version, _commit: token, _pending }]);
        else pending.clear(id, token);
        appended.set(id, version);
        for (const { resolve } of one.waiting) resolve(true);
      }
      for (const [one, reason] of refused) refuse(one, reason);
    } catch (error) {
      for (const { id, waiting } of batch) {
        appended.delete(id);
        for (const { reject } of waiting) reject(error);
      }
    }
  }

  /**
   * Appends the pending rows of the states about to be overwritten. Returns the commits whose state could not be read in
   * the expected version: it was overtaken, or the read was stale. After an election the new primary may briefly serve
   * older majority reads while it already overwrites newer data.
   */
  async function completeUnknown(batch: readonly CoalescedCommit[]): Promise<ReadonlySet<CoalescedCommit>> {
    const unknown = batch.filter(({ id, ifVersion }) => ifVersion > 0 && appended.get(id) !== ifVersion);
    if (unknown.length === 0) return new Set();
    const ids = unknown.map(({ id }) => id);
    const projection = { _v: 1, _commit: 1, _pending: 1 };
    const found = await translateErrors(
      stored.find({ _id: { $in: ids } }, { projection, batchSize: ids.length + 1 }).toArray(),
    );
    await pending.complete(found);
    completed(found);
    return new Set(unknown.filter(({ id, ifVersion }) => appended.get(id) !== ifVersion));
  }

  /** Returns the refused commits with the reason. */
  async function writeStates(
    batch: readonly CoalescedCommit[],
    sideDocuments: ReadonlyMap<CoalescedCommit, number>,
  ): Promise<Map<CoalescedCommit, Reason>> {
    const at = now();
    const updates = batch.filter(({ ifVersion }) => ifVersion > 0).length;
    const allMatched = await translateErrors(
      stored.bulkWrite(
        batch.map((one) => operationOf(one, sideDocuments.get(one) ?? one.rows, at)),
        { ordered: false },
      ),
    ).then(
      ({ matchedCount }) => matchedCount === updates,
      (error) => duplicatesOf(error).length === 0,
    );
    const refused = new Map<CoalescedCommit, Reason>();
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
      const { token, ifVersion, after } = one;
      const state = byId.get(one.id);
      if (state?._commit === token) continue;
      const fits =
        state?._v === ifVersion &&
        state.epoch <= epochOf(one) &&
        (after === undefined || state._commit === after);
      refused.set(one, fits ? 'sort-key' : 'version');
    }
    return refused;
  }

  function operationOf(coalesced: CoalescedCommit, _pending: StoredState['_pending'], at: number) {
    const { id, token, ifVersion, after, version, ranges } = coalesced;
    const { _id, ...row } = codec.document(coalesced.waiting.at(-1)!.commit.state, version);
    const lastKeys: Document = {};
    const increasing: Document[] = [];
    for (const [stream, { first, last }] of ranges) {
      const field = `_last_${stream.replace('$', '')}`;
      lastKeys[field] = last;
      increasing.push({ $or: [{ [field]: null }, { [field]: { $lt: first } }] });
    }
    const document = { ...row, ...lastKeys, _commit: token, _pending_at: at, _pending } as StoredState;
    return ifVersion === 0
      ? { insertOne: { document: { ...document, _id: id } } }
      : {
          updateOne: {
            filter: {
              $and: [
                {
                  _id: id,
                  _v: ifVersion,
                  epoch: { $lte: epochOf(coalesced) },
                  ...(after && { _commit: after }),
                },
                ...increasing,
              ],
            },
            update: { $set: document },
          },
        };
  }

  function refuse({ id, ifVersion, after, waiting }: CoalescedCommit, reason: Reason): void {
    appended.delete(id);
    if (reason === 'version') {
      // All waiting commits of the state build on the refused one.
      for (const { resolve } of [...waiting, ...(queues.get(id) ?? [])]) resolve(false);
      queues.delete(id);
      lastSent.delete(id);
    } else if (waiting.length === 1) {
      waiting[0]!.reject(new ConflictError(events.name, ['id']));
    } else {
      // Only one of them is at fault: retry each on its own.
      for (const one of waiting) one.alone = true;
      lastSent.delete(id);
      if (after) lastSent.set(id, { token: after, version: ifVersion });
      queues.set(id, [...waiting, ...(queues.get(id) ?? [])]);
    }
  }

  function completed(found: readonly StoredState[]): void {
    for (const { _id, _v } of found) appended.set(_id, _v);
  }

  return {
    completed,
    commitRun: (commit) =>
      new Promise((resolve, reject) => {
        const waiting = { ...prepare(commit), resolve, reject };
        const id = encodeString(commit.state.id);
        const queue = queues.get(id);
        if (queue) queue.push(waiting);
        else queues.set(id, [waiting]);
        schedule();
      }),
  };
}
