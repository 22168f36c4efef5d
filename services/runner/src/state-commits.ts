import type { EmittedEvent } from '@wellspring/contract/messages';
import { Unavailable } from '@wellspring/core/unavailable';
import { LeaseLost } from '@wellspring/queue/port';
import type { Deps } from '@wellspring/runtime/deps';
import { type EmitterStateRow, states } from '@wellspring/store/collections/states';
import type { Deployed } from './catalog.ts';
import { type Outcome, prepareCommit, type RunEnd } from './commit.ts';
import { type CommitGroup, createCommitGroup, type Part } from './commit-group.ts';
import { isCommitted } from './committed.ts';
import { commitSets, type DbSet, type Live, liveState } from './live-state.ts';
import type { OutboxRelay } from './outbox-relay.ts';
import type { RunContext } from './records.ts';

/** The state at hand is stale: another runner owns the source, or a write failed. The run is redelivered. */
export class Fenced extends Unavailable {
  override readonly name = 'Fenced';
}

export interface CommitOptions {
  deployed: Deployed;
  shard: string;
  hop: number;
  traceId: string;
  /** The run was started by a record of `$errors` or `$logs`. */
  handlesRecords: boolean;
  logsWanted: boolean;
  event: () => unknown;
  end: RunEnd;
  sends?: Part['sends'];
  /** Passed on with the first event: a workflow behind the source answers the HTTP call. */
  reply?: EmittedEvent['reply'];
}

/** Reads and writes the state of one source: coalesces the commits of a turn, and stops at the first that fails. */
export function createStateCommits(
  sourceId: string,
  { store, clock, relay }: Pick<Deps, 'store' | 'clock'> & { relay: OutboxRelay },
) {
  const stateRows = store.collection(states);
  let loading: Promise<Live> | undefined;
  let forgotten = false;

  /**
   * The live state; reread from the store after a failed commit.
   * @param epoch of the job; commits made from now on carry it
   * @throws LeaseLost if a later owner of the partition has committed
   */
  async function load(epoch = 0): Promise<Live> {
    const live = await read();
    if (epoch > live.row.epoch) live.row = { ...live.row, epoch };
    else if (epoch > 0 && epoch < live.row.epoch)
      throw new LeaseLost(`A later owner of the partition of ${sourceId} has committed`);
    return live;
  }

  async function read(): Promise<Live> {
    loading ??= stateRows.getVersioned(sourceId).then((found) => liveState(sourceId, found));
    const current = loading;
    const reread = () => {
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

  /** Writes the commit group of a turn. Later runs build on a state ahead of the stored one. */
  function flush(live: Live): void {
    const { group } = live;
    if (!group) return;
    live.group = undefined;
    const ifVersion = live.version;
    live.version += 1;
    const { commit: rows, outbox } = group.close(live.row, ifVersion, clock.now());
    const written = (async () => {
      let done = false;
      try {
        if (!forgotten && !live.stale) done = await store.commitRun(rows);
      } finally {
        if (!done) live.stale = true;
      }
      if (!done)
        throw new Fenced(`The state of ${sourceId} was changed by another runner or could not be written`);
      relay.wake(sourceId);
    })();
    group.settle(
      written,
      written.then(() => outbox && relay.publish(outbox)),
    );
  }

  /**
   * Adds a part to the commit group of this turn. The part must have been built from the live state in the same turn.
   * @throws Fenced
   */
  function join(live: Live, ownerId: string, state: EmitterStateRow, part: Part): CommitGroup {
    if (forgotten) throw new Fenced(`The source ${sourceId} was deleted`);
    if (live.stale) throw new Fenced(`An earlier commit of ${sourceId} failed`);
    if (live.group && !live.group.takes(part)) flush(live);
    if (!live.group) {
      live.group = createCommitGroup(sourceId, ownerId);
      setImmediate(() => flush(live));
    }
    live.group.add(part);
    live.row = state;
    return live.group;
  }

  /** Starts the commit of a run; undefined for a duplicate of a committed run. */
  function commit(
    live: Live,
    run: RunContext,
    outcome: Outcome,
    sets: readonly DbSet[],
    { deployed, shard, hop, traceId, handlesRecords, logsWanted, event, end, sends, reply }: CommitOptions,
  ): CommitGroup | undefined {
    const { run_id } = run;
    if (isCommitted(live.row.committed, run_id, shard)) return undefined;
    const { state, events, logs, emitted, delayed } = prepareCommit({
      state: live.row,
      run,
      outcome,
      strategy: deployed.workflow ? null : deployed.deployment.definition.dedupe,
      shard,
      hop,
      triggerEvent: event,
      handlesRecords,
      logsWanted,
      end,
      now: clock.now(),
    });
    const [first, ...others] = emitted;
    const part = {
      ...{ run_id, trace_id: traceId, hop, events, logs, delayed, sends },
      emitted: first && reply ? [{ ...first, reply }, ...others] : emitted,
    };
    return join(live, deployed.source.owner_id, { ...state, db: commitSets(live, sets) }, part);
  }

  return {
    load,
    join,
    commit,
    /** Rejects further commits. */
    forget() {
      forgotten = true;
    },
    isForgotten: () => forgotten,
  };
}
