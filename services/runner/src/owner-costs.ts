import type { ThrownError } from '@wellspring/component/program/program-types';
import type { Clock } from '@wellspring/core/clock';
import type { IdleUsage, Result } from '@wellspring/sandbox/port';
import { createOwnerWork } from './owner-work.ts';

/**
 * Limits the work that an owner causes on the main thread: events to store and deliver, code to compile, processes to
 * replace. While others have runs, each owner may use a quarter of that time on average, else three quarters. Beyond, its
 * next runs and compilations are delayed; other owners' are not.
 */
export interface OwnerCosts {
  /** Records the cost of a run, or of code that is compiled. */
  charge(ownerId: string, cost: Cost): void;
  /** Records time of the main thread in ms; negative: less was used than paid in advance. */
  pay(ownerId: string, ms: number): void;
  /**
   * Whether the owner may start another run.
   * @param paidMs of a run in progress: what it has paid in advance does not delay itself
   */
  isSettled(ownerId: string, paidMs?: number): boolean;
  /** Resolves when that is so, or when the signal is aborted. */
  settled(ownerId: string, options?: { paidMs?: number; signal?: AbortSignal }): Promise<void>;
  /** The owner is near its limit: its runs start one at a time. */
  isCostly(ownerId: string): boolean;
  /** Counts a run, for `isHeavy` only: what it leaves is charged at its end. */
  countRun(ownerId: string): void;
  /** The owner is among those that cause most of the work, and others have runs. */
  isHeavy(ownerId: string): boolean;
}

/** Work that a run or code leaves to the platform. */
export interface Cost {
  events?: number;
  bytes?: number;
  result?: Result | IdleUsage;
}

/** Of a change of `$service.db`, besides its key and value. */
const SET_BYTES = 100;

const total = <T>(list: readonly T[], size: (one: T) => number): number =>
  list.reduce((sum, one) => sum + size(one), 0);

interface Outcome {
  emits: readonly { payload: string }[];
  errors: readonly ThrownError[];
  logs: readonly { msg?: string }[];
}

interface Changes {
  sets: readonly { key: string; json: string | undefined }[];
  sends?: readonly { request: string }[] | undefined;
}

/** Number of events and errors, and bytes of all effects. */
export const sizeOf = ({
  emits = [],
  errors = [],
  logs = [],
  sets = [],
  sends = [],
}: Partial<Outcome & Changes>) => ({
  events: emits.length + errors.length,
  bytes:
    total(emits, ({ payload }) => payload.length) +
    total(errors, ({ message, stack, cause = '' }) => message.length + stack.length + cause.length) +
    total(logs, ({ msg = '' }) => msg.length) +
    total(sets, ({ key, json = '' }) => SET_BYTES + key.length + json.length) +
    total(sends, ({ request }) => request.length),
});

/** The cost of an executed run, for `OwnerCosts.charge`. */
export function costOf(
  { outcome, result, sets, sends }: Changes & { outcome: Outcome; result: Result },
  replyBytes = 0,
) {
  const { events, bytes } = sizeOf({ ...outcome, sets, sends });
  return { events, bytes: bytes + replyBytes, result };
}

/** Estimates, in ms of the main thread. */
const RUN_MS = 0.3;
const EVENT_MS = 0.03;
const MEGABYTE_MS = 40;
/**
 * What one run leaves beyond this counts more than twice: it is committed at once, so that others wait, while small runs
 * take turns with those of others.
 */
const BULK_EVENTS = 100;
const BULK_MEGABYTES = 0.25;
const BULK_FACTOR = 2.5;
/** Replacing a process that ended. */
const PROCESS_MS = 60;
/** Share of the main thread that one owner may use while others have runs, and without them. */
const SHARE = 0.25;
const SHARE_ALONE = 0.75;
/** An owner whose last run is longer ago does not count. */
const ACTIVE_MS = 2_000;
/** A wait ends earlier if the others become inactive meanwhile. */
const MAX_SLEEP_MS = 1_000;
/** Debt allowed before runs are delayed. */
const BURST_MS = 100;
/** Above what all runs of an owner that start at once can cost, so that they do not evade the share. */
const MAX_DELAY_MS = 30_000;
/** Owners without debt are forgotten at this number. */
const MAX_OWNERS = 10_000;

const weigh = (amount: number, bulk: number): number =>
  amount + (BULK_FACTOR - 1) * Math.max(0, amount - bulk);

/** Estimated time of the main thread, in ms. */
export const msOf = ({ events = 0, bytes = 0, result }: Cost): number =>
  weigh(events, BULK_EVENTS) * EVENT_MS +
  weigh(bytes / 1024 / 1024, BULK_MEGABYTES) * MEGABYTE_MS +
  PROCESS_MS * (result?.endedProcesses ?? 0);

/** @param now monotonic ms */
export function createOwnerCosts(
  { sleep }: Pick<Clock, 'sleep'>,
  now: () => number = () => performance.now(),
): OwnerCosts {
  const work = createOwnerWork(now);
  /** Debt of each owner at the time `at`. */
  const debts = new Map<string, { ms: number; at: number }>();

  /** The owner of the last run, and when one of another owner was last recorded. */
  let last = { ownerId: '', othersAt: Number.NEGATIVE_INFINITY, at: Number.NEGATIVE_INFINITY };

  function noteRun(ownerId: string): void {
    const othersAt = ownerId === last.ownerId ? last.othersAt : last.at;
    last = { ownerId, othersAt, at: now() };
  }

  function shareOf(ownerId: string): number {
    const othersAt = ownerId === last.ownerId ? last.othersAt : last.at;
    return now() - othersAt > ACTIVE_MS ? SHARE_ALONE : SHARE;
  }

  function debtOf(ownerId: string): number {
    const debt = debts.get(ownerId);
    return debt ? Math.max(0, debt.ms - (now() - debt.at) * shareOf(ownerId)) : 0;
  }

  function forgetSettled(): void {
    for (const ownerId of debts.keys()) if (debtOf(ownerId) === 0) debts.delete(ownerId);
  }

  /** Debt that delays a run. */
  const excessOf = (ownerId: string, paidMs: number) => debtOf(ownerId) - paidMs - BURST_MS;

  function pay(ownerId: string, ms: number): void {
    noteRun(ownerId);
    work.add(ownerId, ms);
    const owed = Math.min(debtOf(ownerId) + ms, BURST_MS + MAX_DELAY_MS * SHARE);
    debts.set(ownerId, { ms: Math.max(0, owed), at: now() });
    if (debts.size > MAX_OWNERS) forgetSettled();
  }

  return {
    pay,
    charge: (ownerId, cost) => pay(ownerId, msOf(cost)),
    isSettled: (ownerId, paidMs = 0) => excessOf(ownerId, paidMs) <= 0,
    async settled(ownerId, { paidMs = 0, signal } = {}) {
      for (let ms = excessOf(ownerId, paidMs); ms > 0; ms = excessOf(ownerId, paidMs)) {
        if (signal?.aborted) return;
        await sleep(Math.min(MAX_SLEEP_MS, Math.ceil(ms / shareOf(ownerId))), signal);
      }
    },
    isCostly: (ownerId) => debtOf(ownerId) > BURST_MS / 2,
    countRun: (ownerId) => work.add(ownerId, RUN_MS),
    isHeavy: work.isHeavy,
  };
}
