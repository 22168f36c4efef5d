import { setImmediate as nextTurn } from 'node:timers/promises';
import type { DedupeStrategy } from '@wellspring/contract/definition';
import { Unavailable } from '@wellspring/core/unavailable';
import { LeaseLost } from '@wellspring/queue/port';
import type { Deps } from '@wellspring/runtime/deps';
import type { OutboxRow } from '@wellspring/store/collections/outbox';
import { type EmitterStateRow, states } from '@wellspring/store/collections/states';
import type { Deployed } from './catalog.ts';
import { type Arranged, type CommitInput, prepareCommit } from './commit.ts';
import type { CommitGate } from './commit-gate.ts';
import { type CommitGroup, createCommitGroup, type Part } from './commit-group.ts';
import { bytesOf, commitSets, type DbSet, type LiveState, liveState } from './live-state.ts';
import type { OutboxRelay } from './outbox-relay.ts';
import type { RunContext } from './records.ts';
import type { RunListeners } from './run-listeners.ts';

/** The state at hand is stale: another runner owns the source, or a write failed. The run is redelivered. */
export class Fenced extends Unavailable {
  override readonly name = 'Fenced';
}

export interface CommitOptions
  extends Pick<CommitInput, 'handlesRecords' | 'unheard' | 'triggerEvent' | 'end' | 'reply'> {
  deployed: Deployed;
  hop: number;
  traceId: string;
  /** Of the listeners, for the fan-out; undefined: the current one. */
  revision?: RunListeners['revision'];
  sends?: Part['sends'];
}

export const strategyOf = ({ workflow, deployment }: Deployed): DedupeStrategy | null =>
  workflow ? null : deployment.definition.dedupe;

/**
 * Reads and writes the state of one source, by one commit at a time; stops at the first that fails. Messages are published in the
 * order of the commits; after one that fails, they stay in the outbox.
 */
export function createStateCommits(
  sourceId: string,
  { store, clock, relay, gate }: Pick<Deps, 'store' | 'clock'> & { relay: OutboxRelay; gate: CommitGate },
) {
  const stateRows = store.collection(states);
  let loading: Promise<LiveState> | undefined;
  let loaded: LiveState | undefined;
  /** Of the newest lease under which the state was read, or found unchanged. */
  let checkedEpoch = 0;
  let forgotten = false;
  /** Resolves when no group is being written. */
  let idle: Promise<void> = Promise.resolve();
  /** Messages that were not published: one that failed, and later ones, which stay in the outbox behind it until `republish`. */
  let unpublished = 0;

  /**
   * The live state; reread from the store after a failed commit, and after one of another owner.
   * @param epoch of the job; commits made from now on carry it
   * @throws LeaseLost if a later owner of the partition has committed
   */
  async function load(epoch = 0): Promise<LiveState> {
    const live = await (epoch > checkedEpoch ? readUnder(epoch) : read());
    if (epoch > live.row.epoch) live.row = { ...live.row, epoch };
    else if (epoch > 0 && epoch < live.row.epoch)
      throw new LeaseLost(`A later owner of the partition of ${sourceId} has committed`);
    return live;
  }

  /**
   * Between two leases of this process, another one may have had the partition. Runs on the former state would be executed
   * in vain, since their commits are refused.
   */
  async function readUnder(epoch: number): Promise<LiveState> {
    const former = loading;
    const live = await read();
    if (loading === former) {
      const version = (await stateRows.getVersioned(sourceId))?.version ?? 0;
      // The read may contain a commit of this process that is in progress.
      await idle;
      if (version > live.version) live.stale = true;
    }
    checkedEpoch = Math.max(checkedEpoch, epoch);
    return read();
  }

  async function read(): Promise<LiveState> {
    const now = clock.now();
    loading ??= stateRows.getVersioned(sourceId).then((found) => {
      loaded = liveState(sourceId, found, now);
      return loaded;
    });
    const current = loading;
    const reread = async () => {
      // The groups that were complete before the failure.
      await idle;
      if (loading === current) loading = undefined;
      return read();
    };
    try {
      const live = await current;
      return live.stale ? await reread() : live;
    } catch (error) {
      if (loading === current) loading = undefined;
      throw error;
    }
  }

  /** Writes the groups one after the other: runs that end during a write form the next group. */
  function write(live: LiveState): void {
    if (live.isWriting) return;
    live.isWriting = true;
    idle = nextTurn().then(async () => {
      let failed = false;
      for (let group = live.groups.shift(); group; group = live.groups.shift()) {
        const made = writeOne(live, group, () => forgotten || failed);
        group.settle(
          made.then(() => {}),
          made.then((outbox) => outbox && publish(outbox)),
        );
        await made.catch(() => {
          failed = true;
        });
      }
      live.isWriting = false;
    });
  }

  async function publish(outbox: OutboxRow): Promise<void> {
    try {
      if (unpublished > 0) throw new Unavailable(`An earlier message of ${sourceId} was not published`);
      await relay.publish(outbox);
    } catch (error) {
      unpublished += 1;
      throw error;
    }
  }

  async function writeOne(
    live: LiveState,
    group: CommitGroup,
    isOver: () => boolean,
  ): Promise<OutboxRow | undefined> {
    let done = false;
    let made: Awaited<ReturnType<CommitGroup['close']>>;
    try {
      made = await group.close(clock.now());
      const { state, outbox, ...rows } = made;
      const { db, dedupe, ...small } = state;
      const changed = {
        ...small,
        ...(db !== live.stored.db && { db }),
        ...(dedupe !== live.stored.dedupe && { dedupe }),
      };
      if (outbox) outbox.commit = live.version + 1;
      const commit = { ...rows, outbox, state: changed, ifVersion: live.version };
      done = !isOver() && (await gate.retry(() => store.commitRun(commit), isOver));
    } finally {
      if (!done) live.stale = true;
    }
    // Also of a commit whose answer was lost.
    relay.wake(sourceId);
    if (!done)
      throw new Fenced(`The state of ${sourceId} was changed by another runner or could not be written`);
    live.stored = made.state;
    live.version += 1;
    return made.outbox;
  }

  /**
   * Adds a part to the newest commit group. The part must have been built from the live state in the same turn.
   * @throws Fenced
   */
  function join(live: LiveState, ownerId: string, state: EmitterStateRow, part: Part): CommitGroup {
    if (forgotten) throw new Fenced(`The source ${sourceId} was deleted`);
    if (live.stale) throw new Fenced(`An earlier commit of ${sourceId} failed`);
    let group = live.groups.at(-1);
    if (!group?.takes(part)) {
      group = createCommitGroup(sourceId, ownerId);
      live.groups.push(group);
      write(live);
    }
    group.add(part, state);
    live.row = state;
    live.known.add(part.run_id, clock.now());
    return group;
  }

  /** Starts the commit of a run. */
  function commit(
    live: LiveState,
    run: RunContext,
    outcome: Arranged,
    sets: readonly DbSet[],
    options: CommitOptions,
  ): CommitGroup {
    const { deployed, hop, traceId, revision, sends } = options;
    const { state, ...made } = prepareCommit({
      ...options,
      state: live.row,
      run,
      outcome,
      strategy: strategyOf(deployed),
      logsWanted: deployed.logsWanted,
      now: clock.now(),
    });
    const part = { ...made, run_id: run.run_id, trace_id: traceId, hop, revision, sends };
    return join(live, deployed.emitter.owner_id, { ...state, db: commitSets(live, sets) }, part);
  }

  return {
    load,
    join,
    commit,
    /** Rejects further commits. Resolves when none is in progress. */
    async forget() {
      forgotten = true;
      await idle;
    },
    isForgotten: () => forgotten,
    bytes: () => bytesOf(loaded),
    isBehind: () => unpublished > 0,
    /** Publishes, in order, what earlier commits have left, and those that are made meanwhile. */
    async republish() {
      for (let known = -1; known !== unpublished; ) {
        known = unpublished;
        await relay.republish(sourceId);
      }
      unpublished = 0;
    },
  };
}
