import type { Db, Document } from '@wellspring/mongodb/client';
import { answered, duplicatesOf } from '@wellspring/mongodb/errors';
import { events } from './collections/events.ts';
import { states } from './collections/states.ts';
import {
  type Chain,
  extend,
  joinRows,
  MOST_BYTES,
  prepare,
  splitRows,
  startChain,
  type Waiting,
  type Written,
} from './mongodb-chain.ts';
import type { Pending, StoredState } from './mongodb-pending.ts';
import { createCodec, encodeString } from './mongodb-row.ts';
import { ConflictError, type RunCommit } from './port.ts';

/** Batches under way at a time; a state is in one of them. */
const BATCHES = 2;
const MOST_CHAINS = 500;
/** States whose rows are known to be appended; the others are looked at before they are written. */
const MOST_KNOWN = 50_000;

export interface Commits {
  commitRun(commit: RunCommit): Promise<boolean>;
  /** The rows that these states carry are appended. */
  completed(states: readonly StoredState[]): void;
}

/**
 * Commits runs. The state's document is the commit: it carries the rows until they stand in their collections, where
 * whoever reads the state puts them if this process does not get to it (see Pending). What several emitters commit at
 * the same time is written together: one statement for the states, one for each of the collections.
 *
 * The version of a state does not tell whose it is: when a commit was refused, since another one has made that version,
 * the commits that this process has built on its own meanwhile would fit. They name the commit that they follow.
 *
 * The places of rows rise with the commits of their stream, which the state's write checks. So a row that is there
 * when it is appended is the same row, and a reader who saw a row has seen all before it.
 */
export function createCommits(db: Db, pending: Pending, now: () => number): Commits {
  const stored = db.collection<StoredState>(states.name);
  const codec = createCodec(states);
  const queues = new Map<string, Waiting[]>();
  const busy = new Set<string>();
  /** By state, while commits of it wait: the newest one that was begun. */
  const begun = new Map<string, Written>();
  /** By state: the version up to which all rows are appended. */
  const known = new Map<string, number>();
  let batches = 0;
  let scheduled = false;

  function know(id: string, version: number): void {
    if (known.size >= MOST_KNOWN) known.clear();
    known.set(id, version);
  }

  /** One batch for all that comes up within a turn, and while others are under way. */
  function schedule(): void {
    if (scheduled || batches >= BATCHES || queues.size === 0) return;
    scheduled = true;
    setImmediate(() => {
      scheduled = false;
      const chains = takeChains();
      if (chains.length === 0) return;
      batches += 1;
      void writeAll(chains).then(() => {
        batches -= 1;
        for (const { id } of chains) {
          busy.delete(id);
          if (!queues.has(id)) begun.delete(id);
        }
        schedule();
      });
    });
  }

  function takeChains(): Chain[] {
    const chains: Chain[] = [];
    for (const [id, queue] of queues) {
      if (busy.has(id)) continue;
      if (chains.length === MOST_CHAINS) break;
      const chain = startChain(queue.shift()!, begun.get(id));
      while (queue.length > 0 && extend(chain, queue[0]!)) queue.shift();
      if (queue.length === 0) queues.delete(id);
      busy.add(id);
      begun.set(id, chain);
      chains.push(chain);
    }
    return chains;
  }

  /** Writes the batch and tells everybody. Never rejects. */
  async function writeAll(chains: readonly Chain[]): Promise<void> {
    try {
      const overtaken = await completeUnknown(chains);
      for (const chain of overtaken) refuse(chain, 'version');
      const current = chains.filter((chain) => !overtaken.has(chain));
      if (current.length === 0) return;
      const aside = new Map<Chain, number>();
      for (const chain of current) {
        if (chain.size <= MOST_BYTES) continue;
        aside.set(chain, await pending.putAside(chain.token, chain.id, splitRows(chain.rows)));
      }
      const refused = await writeStates(current, aside);
      const written = current.filter((chain) => !refused.has(chain));
      await pending.append(joinRows(written.filter((chain) => !aside.has(chain)).map(({ rows }) => rows)));
      for (const chain of written) {
        const { id, token, version } = chain;
        if (aside.has(chain)) {
          await pending.complete([{ _id: id, _v: version, _commit: token, _pending: aside.get(chain)! }]);
        } else {
          pending.clear(id, token);
        }
        know(id, version);
        for (const { resolve } of chain.waiting) resolve(true);
      }
      for (const [chain, why] of refused) refuse(chain, why);
    } catch (error) {
      for (const { id, waiting } of chains) {
        known.delete(id);
        for (const { reject } of waiting) reject(error);
      }
    }
  }

  /**
   * A state is only overwritten when all that it carries is appended. Gives the chains for which this cannot be said: the
   * state has another version, or what was read is older than it is. After an election, the new primary may for a
   * moment show what a majority had before, while it already writes over what came later.
   */
  async function completeUnknown(chains: readonly Chain[]): Promise<ReadonlySet<Chain>> {
    const unknown = chains.filter(({ id, ifVersion }) => ifVersion > 0 && known.get(id) !== ifVersion);
    if (unknown.length === 0) return new Set();
    const ids = unknown.map(({ id }) => id);
    const projection = { _v: 1, _commit: 1, _pending: 1 };
    const found = await answered(
      stored.find({ _id: { $in: ids } }, { projection, batchSize: ids.length + 1 }).toArray(),
    );
    await pending.complete(found);
    completed(found);
    return new Set(unknown.filter(({ id, ifVersion }) => known.get(id) !== ifVersion));
  }

  /** Gives the chains that could not be written, and why. */
  async function writeStates(
    chains: readonly Chain[],
    aside: ReadonlyMap<Chain, number>,
  ): Promise<Map<Chain, 'version' | 'place'>> {
    const at = now();
    const updates = chains.filter(({ ifVersion }) => ifVersion > 0).length;
    const allMatched = await answered(
      stored.bulkWrite(
        chains.map((chain) => operationOf(chain, aside.get(chain) ?? chain.rows, at)),
        { ordered: false },
      ),
    ).then(
      ({ matchedCount }) => matchedCount === updates,
      (error) => duplicatesOf(error).length === 0,
    );
    const refused = new Map<Chain, 'version' | 'place'>();
    if (allMatched) return refused;
    const ids = chains.map(({ id }) => id);
    const options = {
      projection: { _v: 1, _commit: 1 },
      batchSize: ids.length + 1,
      // What a majority has may be older than what was just refused; and that answer has waited for the majority.
      readConcern: { level: 'local' as const },
    };
    const found = await answered(stored.find({ _id: { $in: ids } }, options).toArray());
    const byId = new Map(found.map((state) => [state._id, state]));
    for (const chain of chains) {
      const { token, ifVersion, after } = chain;
      const state = byId.get(chain.id);
      if (state?._commit === token) continue;
      const fits = state?._v === ifVersion && (after === undefined || state._commit === after);
      refused.set(chain, fits ? 'place' : 'version');
    }
    return refused;
  }

  function operationOf(chain: Chain, _pending: StoredState['_pending'], at: number) {
    const { id, token, ifVersion, after, version, places } = chain;
    const { _id, ...row } = codec.document(chain.waiting.at(-1)!.commit.state, version);
    const last: Document = {};
    const earlier: Document[] = [];
    for (const [stream, { least, greatest }] of places) {
      const field = `_last_${stream.replace('$', '')}`;
      last[field] = greatest;
      earlier.push({ $or: [{ [field]: null }, { [field]: { $lt: least } }] });
    }
    const document = { ...row, ...last, _commit: token, _pending_at: at, _pending } as StoredState;
    return ifVersion === 0
      ? { insertOne: { document: { ...document, _id: id } } }
      : {
          updateOne: {
            filter: { $and: [{ _id: id, _v: ifVersion, ...(after && { _commit: after }) }, ...earlier] },
            update: { $set: document },
          },
        };
  }

  function refuse({ id, ifVersion, after, waiting }: Chain, why: 'version' | 'place'): void {
    known.delete(id);
    if (why === 'version') {
      // Nobody knows of it yet: whatever waits was built on it.
      for (const { resolve } of [...waiting, ...(queues.get(id) ?? [])]) resolve(false);
      queues.delete(id);
      begun.delete(id);
    } else if (waiting.length === 1) {
      waiting[0]!.reject(new ConflictError(events.name, ['id']));
    } else {
      // One of them is at fault, not those before it.
      for (const one of waiting) one.alone = true;
      begun.delete(id);
      if (after) begun.set(id, { token: after, version: ifVersion });
      queues.set(id, [...waiting, ...(queues.get(id) ?? [])]);
    }
  }

  function completed(found: readonly StoredState[]): void {
    for (const { _id, _v } of found) know(_id, _v);
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
