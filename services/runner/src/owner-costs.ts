import type { ThrownError } from '@wellspring/component/program/program-types';
import type { Clock } from '@wellspring/core/clock';
import type { IdleUsage, Result } from '@wellspring/sandbox/port';

/**
 * Limits the work that an owner causes on the main thread: events to store and deliver, code to compile, processes to
 * replace. Each owner may use a quarter of that time on average. Beyond, its next runs and compilations are delayed;
 * other owners' are not.
 */
export interface OwnerCosts {
  /** Records the cost of a run, or of code that is compiled. */
  charge(ownerId: string, cost: { events?: number; bytes?: number; result?: Result | IdleUsage }): void;
  /** Resolves when the owner may start another run. */
  settled(ownerId: string): Promise<void>;
  /** The owner is near its limit: its runs start one at a time. */
  isCostly(ownerId: string): boolean;
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

/**
 * Input of `OwnerCosts.charge`.
 * @param run part of an `Execution`
 */
export function costOf(
  { outcome, result, sets, sends }: Changes & { outcome: Outcome; result: Result },
  replyBytes = 0,
) {
  const { events, bytes } = sizeOf({ ...outcome, sets, sends });
  return { events, bytes: bytes + replyBytes, result };
}

/** Estimates, in ms of the main thread. */
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
/** Share of the main thread that one owner may use. */
const SHARE = 0.25;
/** Debt allowed before runs are delayed. */
const BURST_MS = 100;
/** Bounds how long sources of one owner delay each other. */
const MAX_DELAY_MS = 2_000;
/** Owners without debt are forgotten at this number. */
const MAX_OWNERS = 10_000;

const weigh = (amount: number, bulk: number): number =>
  amount + (BULK_FACTOR - 1) * Math.max(0, amount - bulk);

/** @param now monotonic ms */
export function createOwnerCosts(
  { sleep }: Pick<Clock, 'sleep'>,
  now: () => number = () => performance.now(),
): OwnerCosts {
  /** Debt of each owner at the time `at`. */
  const debts = new Map<string, { ms: number; at: number }>();

  function debtOf(ownerId: string): number {
    const debt = debts.get(ownerId);
    return debt ? Math.max(0, debt.ms - (now() - debt.at) * SHARE) : 0;
  }

  function forgetSettled(): void {
    for (const ownerId of debts.keys()) if (debtOf(ownerId) === 0) debts.delete(ownerId);
  }

  return {
    charge(ownerId, { events = 0, bytes = 0, result }) {
      const replaced = PROCESS_MS * (result?.endedProcesses ?? 0);
      const megabytes = bytes / 1024 / 1024;
      const cost =
        weigh(events, BULK_EVENTS) * EVENT_MS + weigh(megabytes, BULK_MEGABYTES) * MEGABYTE_MS + replaced;
      const ms = Math.min(debtOf(ownerId) + cost, BURST_MS + MAX_DELAY_MS * SHARE);
      debts.set(ownerId, { ms, at: now() });
      if (debts.size > MAX_OWNERS) forgetSettled();
    },
    async settled(ownerId) {
      for (let over = debtOf(ownerId) - BURST_MS; over > 0; over = debtOf(ownerId) - BURST_MS) {
        await sleep(Math.ceil(over / SHARE));
      }
    },
    isCostly: (ownerId) => debtOf(ownerId) > BURST_MS / 2,
  };
}
