import type { Clock } from '@wellspring/core/clock';
import { createLru } from '@wellspring/core/lru';
import type { StoredRow } from './row.ts';

/** A state and its newest commit. */
export interface CommitOfState {
  _id: string;
  _commit: string;
}

/** See StoredState: the document of a state contains the rows of its newest commit. */
interface HeldCommit extends CommitOfState {
  /** Epoch ms. */
  at: number;
  /** Its outbox rows, and those that it carries on. */
  outbox: readonly StoredRow[];
}

const CLEAR_INTERVAL_MS = 100;
const MIN_HELD_MS = 50;
/** Unpublished rows that a state document carries on; older and larger ones are appended to the outbox. */
const MAX_CARRIED_MS = 1_000;
const MAX_CARRIED_BYTES = 64 * 1024;
const MAX_EARLY = 1_000;

/**
 * Commits of this process whose events and logs are appended, and whose outbox rows are only in the document of their
 * state: most are published, and so forgotten, before they would be appended to the outbox.
 */
export interface HeldCommits {
  /**
   * The outbox rows are appended, and the pending rows removed from the state, after a while, unless the next commit
   * carries on what is unpublished by then.
   * @param carried earlier outbox rows that its document contains, too
   */
  hold(commit: CommitOfState, outbox: readonly StoredRow[], carried: readonly StoredRow[]): void;
  has(commit: CommitOfState): boolean;
  /** The unpublished outbox rows that the next commit of a state has to carry on; a large commit carries none. */
  carried(stateId: string, isLarge: boolean): Promise<readonly StoredRow[]>;
  /** An outbox row that is only in the document of its state. */
  unpublished(id: string): StoredRow | undefined;
  /** Records that these outbox rows were published. @returns the ids that may also have a row in the outbox */
  published(ids: readonly string[]): Promise<string[]>;
  /** Records that another caller appended these outbox rows. */
  appended(rows: readonly StoredRow[]): void;
  /** Appends unpublished outbox rows of a state, or of all, and removes its pending rows. */
  release(stateId?: string): Promise<void>;
  /** Releases all; resolves when that is done, or has failed. */
  close(): Promise<void>;
}

interface Writes {
  /** Idempotent. */
  appendOutbox(rows: readonly StoredRow[]): Promise<void>;
  /** Removes the pending rows of states that still have these commits. */
  clear(commits: readonly CommitOfState[]): Promise<void>;
}

export function createHeldCommits({ appendOutbox, clear }: Writes, clock: Clock): HeldCommits {
  /** By state. */
  const held = new Map<string, HeldCommit>();
  const unpublished = new Map<string, StoredRow>();
  /** Ids of rows that were appended before their commit was held: a reader was faster. */
  const early = createLru<true>(MAX_EARLY);
  const closing = new AbortController();
  let clearing: Promise<void> | undefined;
  let releasing: Promise<unknown> = Promise.resolve();

  const unpublishedOf = ({ outbox }: HeldCommit) => outbox.filter(({ _id }) => unpublished.has(_id));

  function release(batch: readonly HeldCommit[]): Promise<void> {
    if (batch.length === 0) return Promise.resolve();
    const released = releasing.then(async () => {
      const rows = batch.flatMap(unpublishedOf);
      await appendOutbox(rows);
      for (const { _id } of rows) unpublished.delete(_id);
      const current = batch.filter((one) => held.get(one._id) === one);
      if (current.length > 0) await clear(current);
      for (const one of current) if (held.get(one._id) === one) held.delete(one._id);
    });
    releasing = released.catch(() => {});
    return released;
  }

  async function releaseOld(): Promise<void> {
    for (let closed = false; held.size > 0 && !closed; ) {
      await clock.sleep(CLEAR_INTERVAL_MS, closing.signal);
      closed = closing.signal.aborted;
      const until = closed ? Number.POSITIVE_INFINITY : clock.now() - MIN_HELD_MS;
      // After a failure the commits stay held, and their rows in the states.
      await release([...held.values()].filter(({ at }) => at <= until)).catch(() => {});
    }
    clearing = undefined;
  }

  return {
    hold({ _id, _commit }, outbox, carried) {
      // Those that were carried may have been published or appended meanwhile.
      for (const row of outbox) if (!early.has(row._id)) unpublished.set(row._id, row);
      held.set(_id, { _id, _commit, outbox: [...carried, ...outbox], at: clock.now() });
      clearing ??= releaseOld();
    },
    has: ({ _id, _commit }) => held.get(_id)?._commit === _commit,
    async carried(stateId, isLarge) {
      const one = held.get(stateId);
      const rows = one ? unpublishedOf(one) : [];
      if (!one || rows.length === 0) return [];
      const isOld = clock.now() - Number(rows[0]!.created_at_ms) > MAX_CARRIED_MS;
      const bytes = rows.reduce((sum, { message }) => sum + message.length, 0);
      if (!isLarge && !isOld && bytes <= MAX_CARRIED_BYTES) return rows;
      await release([one]);
      return [];
    },
    unpublished: (id) => unpublished.get(id),
    async published(ids) {
      await releasing;
      return ids.filter((id) => !unpublished.delete(id));
    },
    appended(rows) {
      for (const { _id } of rows) if (!unpublished.delete(_id)) early.set(_id, true);
    },
    release(stateId) {
      if (stateId === undefined) return release([...held.values()]);
      const one = held.get(stateId);
      return release(one ? [one] : []);
    },
    async close() {
      closing.abort();
      await clearing;
    },
  };
}
