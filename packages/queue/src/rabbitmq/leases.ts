import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { shareOf } from '@wellspring/core/partitions';
import { untilAborted } from '@wellspring/core/until-aborted';
import type { Store } from '@wellspring/store/port';
import type { QueueName } from '../port.ts';
import { type LeaseRow, leases, type SessionRow, sessions } from './collections.ts';
import { createSession, type WakeUp } from './session.ts';

/**
 * Assigns the partitions of the queues to processes. Each partition has a row with its holder, a session (see session.ts),
 * and an epoch that grows with each taking. Processes hold equal shares: one with a surplus releases partitions when
 * their running work has ended, one with a deficit takes free ones; only the share of a joining or leaving process moves.
 *
 * A process has one session for all its partitions, so that one statement renews them. When it was not renewed within
 * two thirds of the lease, `mayStart` is false; when another process has ended it, or after three leases, all are lost.
 */
export interface Leases {
  /** Nothing may be started, read or removed in the name of a partition while it is false. */
  readonly mayStart: boolean;
  /** Number of partitions of a queue that this process holds. */
  held(queue: QueueName): number;
  /** Whether work may be started in the name of this partition; reads the clock. */
  holds(queue: QueueName, partition: number): boolean;
  /** Takes part until the signal is aborted, then releases everything. */
  join(queue: QueueName, handlers: LeaseHandlers, signal: AbortSignal): Promise<void>;
  /** The store refused the epoch of a partition: another process has it. */
  forfeit(queue: QueueName, partition: number): void;
  /** The process that has a partition; undefined if there is none. @throws Unavailable */
  holderOf(queue: QueueName, partition: number): Promise<string | undefined>;
}

export interface LeaseHandlers {
  take(partition: number, epoch: number): void;
  /**
   * Must stop the work on a partition; no other process takes it before this resolves.
   * @param urgent aborted when this process leaves: nothing more is served while slow work ends
   */
  release(partition: number, urgent: AbortSignal): Promise<void>;
  /** Another process may have the partition, or take it at once: what is in memory must be dropped. */
  lost(partition: number): void;
}

export interface LeasesOptions {
  store: Store;
  clock: Clock;
  log: Log;
  /** Unique name of the process. */
  member: string;
  /** Of each queue. */
  partitions: number;
  wakeUp: WakeUp;
  /**
   * False while the process cannot serve partitions. It releases them when another process can serve for the length of a
   * lease meanwhile. After twice that time it drops the rest: their jobs are redelivered, and the epoch fences running ones.
   */
  isAble(): boolean;
  renewMs?: number;
  leaseMs?: number;
}

const RENEW_INTERVAL_MS = 2_000;
/** A frozen or unreachable process is replaced after it. */
const LEASE_MS = 6_000;
/** Partitions move when no session began for this part of the interval: processes often start together. */
const SETTLE_PART = 1 / 4;

interface HeldPartition {
  epoch: number;
  releasing?: { ended: Promise<unknown>; urgent: AbortController };
}
interface Group extends LeaseHandlers {
  queue: QueueName;
  held: Map<number, HeldPartition>;
  /** Aborted when this process leaves the group. */
  leaving: AbortSignal;
  /** A row may name this process though it does not hold the partition. */
  isUnsure: boolean;
  /** `performance.now()` of the last look at which no other process could serve. */
  aloneAt: number;
}

const idOf = (queue: QueueName, partition: number): string => `${queue}.${partition}`;
const keysOf = (held: Group['held']) => [...held.keys()];

export function createLeases({
  store,
  clock,
  log,
  member,
  partitions,
  wakeUp,
  isAble,
  renewMs = RENEW_INTERVAL_MS,
  leaseMs = LEASE_MS,
}: LeasesOptions): Leases {
  const rows = store.collection(leases);
  const groups = new Map<QueueName, Group>();
  const session = createSession({
    rows: store.collection(sessions),
    ...{ log, member, leaseMs, wakeUp, lost },
  });
  let known = new Set<string>();
  let knownSince = 0;
  let ableAt = 0;
  let wake = new AbortController();
  let running: Promise<void> | undefined;

  wakeUp.onReceived(() => wake.abort());

  function lost(): void {
    for (const group of groups.values()) for (const partition of keysOf(group.held)) drop(group, partition);
  }

  function drop(group: Group, partition: number): void {
    if (!group.held.delete(partition)) return;
    group.isUnsure = true;
    group.lost(partition);
  }

  function startRelease(group: Group, partition: number, isUrgent: boolean): void {
    const held = group.held.get(partition)!;
    const urgent = held.releasing?.urgent ?? new AbortController();
    if (isUrgent) urgent.abort();
    if (held.releasing) return;
    const ended = group
      .release(partition, urgent.signal)
      .catch((error: unknown) =>
        log.error({ group: group.queue, partition, error: String(error) }, 'ownership.release_failed'),
      )
      .then(() => {
        if (group.held.get(partition) === held) group.held.delete(partition);
        return free(group.queue, partition, held.epoch);
      });
    held.releasing = { ended, urgent };
  }

  async function free(queue: QueueName, partition: number, epoch: number): Promise<void> {
    const { id } = session;
    // Later the session is not alive, which frees it, too.
    while (id !== undefined && session.id === id) {
      try {
        await rows.patch(idOf(queue, partition), { holder: null }, { epoch });
        wakeUp.send();
        return;
      } catch {
        await clock.sleep(renewMs);
      }
    }
  }

  async function take(group: Group, row: LeaseRow, holder: string): Promise<void> {
    const epoch = row.epoch + 1;
    if (!(await rows.patch(row.id, { holder, epoch }, { epoch: row.epoch }))) return;
    // An earlier statement whose answer is late; a later one took the partition.
    if (session.id !== holder || (group.held.get(row.partition)?.epoch ?? 0) >= epoch) return;
    if (group.leaving.aborted) return free(group.queue, row.partition, epoch);
    group.held.set(row.partition, { epoch });
    group.take(row.partition, epoch);
  }

  async function list(queue: QueueName): Promise<LeaseRow[]> {
    const found = await rows.list({ where: { queue } });
    if (found.length >= partitions) return found;
    const all = Array.from({ length: partitions }, (_, partition) => partition);
    await rows.insertMany(
      all.map((partition) => ({ id: idOf(queue, partition), queue, partition, holder: null, epoch: 0 })),
    );
    return rows.list({ where: { queue } });
  }

  /** Takes free partitions, beginning with `first`; frees those beyond `room` that an unanswered statement took. */
  async function acquire(
    group: Group,
    alive: ReadonlySet<string>,
    room: number,
    first: number,
  ): Promise<void> {
    const found = await list(group.queue);
    const { id } = session;
    if (id === undefined) return;
    const distance = ({ partition }: LeaseRow) => (partition - first + partitions) % partitions;
    const available = found
      .filter(({ partition }) => !group.held.has(partition))
      .filter(({ holder }) => holder === null || holder === id || !alive.has(holder))
      .sort((a, b) => distance(a) - distance(b));
    const surplus = available.slice(room).filter(({ holder }) => holder === id);
    group.isUnsure = true;
    const statements = await Promise.allSettled([
      ...available.slice(0, room).map((row) => take(group, row, id)),
      ...surplus.map((row) => rows.patch(row.id, { holder: null }, { epoch: row.epoch })),
    ]);
    for (const one of statements) if (one.status === 'rejected') throw one.reason;
    group.isUnsure = false;
    if (surplus.length > 0) wakeUp.send();
  }

  async function balance(
    group: Group,
    all: readonly SessionRow[],
    { isSettled, unableMs }: { isSettled: boolean; unableMs: number },
  ): Promise<void> {
    const { queue, held } = group;
    const { id } = session;
    if (id === undefined) return;
    const names = all
      .filter(({ queues }) => queues.split(',').includes(queue))
      .map((one) => one.id)
      .sort();
    const now = performance.now();
    if (names.every((one) => one === id)) group.aloneAt = now;
    // Nobody can serve them: during an outage of the broker no partition moves.
    if (names.length === 0) return;
    // After an outage the processes reconnect one after the other.
    const replaceableMs = Math.min(unableMs, now - group.aloneAt);
    if (replaceableMs >= 2 * leaseMs) for (const partition of keysOf(held)) drop(group, partition);
    const share = shareOf(id, names, { group: queue, partitions });
    const staying = () => keysOf(held).filter((partition) => !held.get(partition)!.releasing);
    const room = isSettled ? Math.max(0, share - staying().length) : 0;
    // Processes that take at the same time begin at different partitions.
    const first = Math.floor((names.indexOf(id) * partitions) / names.length);
    if (room > 0 || group.isUnsure) await acquire(group, new Set(all.map((one) => one.id)), room, first);
    if (!isSettled || (unableMs >= leaseMs && replaceableMs < leaseMs)) return;
    // The most recent ones have the coldest caches.
    for (const partition of staying().slice(share).reverse()) startRelease(group, partition, false);
  }

  /** @returns ms until the next look */
  async function look(): Promise<number> {
    const begun = performance.now();
    if (isAble()) ableAt = begun;
    const unableMs = begun - ableAt;
    const queues = [...groups.values()]
      .filter(({ leaving }) => unableMs < leaseMs && !leaving.aborted)
      .map(({ queue }) => queue)
      .sort();
    const alive = await session.renew(queues);
    const members = new Set(alive.map(({ id, queues }) => `${id} ${queues}`));
    if (!known.has(`${session.id} ${queues.join()}`)) wakeUp.send();
    if (!members.isSubsetOf(known)) knownSince = performance.now();
    known = members;
    const settling = knownSince + renewMs * SETTLE_PART - performance.now();
    for (const group of groups.values())
      if (!group.leaving.aborted) await balance(group, alive, { isSettled: settling <= 0, unableMs });
    return settling > 0 ? settling : Math.max(0, Math.min(renewMs, session.nextExpiry - performance.now()));
  }

  async function run(): Promise<void> {
    let isFailing = false;
    while (groups.size > 0) {
      wake = new AbortController();
      let pause = renewMs;
      try {
        pause = await look();
        isFailing = false;
      } catch (error) {
        if (!isFailing) log.warn({ error: String(error) }, 'ownership.unknown');
        isFailing = true;
        knownSince = performance.now();
        pause = renewMs / 2;
        session.forget();
      }
      await clock.sleep(pause, wake.signal);
    }
    await session.end().catch(() => {});
    wakeUp.send();
    if (groups.size > 0) await run();
    else running = undefined;
  }

  return {
    get mayStart() {
      return session.isValid;
    },
    held: (queue) => groups.get(queue)?.held.size ?? 0,
    holds: (queue, partition) => session.isValid && groups.get(queue)?.held.has(partition) === true,
    async join(queue, handlers, signal) {
      const group = { ...handlers, queue, held: new Map(), leaving: signal, isUnsure: true, aloneAt: 0 };
      groups.set(queue, group);
      wake.abort();
      running ??= run();
      await untilAborted(signal);
      wake.abort();
      for (const partition of keysOf(group.held)) startRelease(group, partition, true);
      await Promise.all([...group.held.values()].map(({ releasing }) => releasing?.ended));
      groups.delete(queue);
      wake.abort();
      if (groups.size === 0) await running;
    },
    forfeit(queue, partition) {
      const group = groups.get(queue);
      if (group) drop(group, partition);
      wake.abort();
    },
    holderOf: async (queue, partition) => (await rows.get(idOf(queue, partition)))?.holder?.split('/')[0],
  };
}
