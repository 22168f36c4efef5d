import type { Clock } from '@wellspring/core/clock';
import type { Result } from '@wellspring/sandbox/port';

/**
 * What runs leave to the platform is work on its one main thread and on its processors: events to store and deliver,
 * and processes to replace. Each owner may cause a quarter of it on average. One that causes more has its next runs
 * delayed; nobody else is.
 */
export interface OwnerCosts {
  /** What a run has caused. */
  charge(ownerId: string, run: { events: number; bytes: number; result: Result }): void;
  /** Resolves when the owner may start another run. */
  settled(ownerId: string): Promise<void>;
  /** The owner caused more lately than it may: its runs are started one at a time. */
  isCostly(ownerId: string): boolean;
}

/** Estimates, in ms of the main thread. */
const EVENT_MS = 0.03;
const MEGABYTE_MS = 40;
/** A process that was ended has to be replaced. */
const PROCESS_MS = 60;
/** Share of the time that one owner may cause. */
const SHARE = 0.25;
/** What an owner may cause at once. */
const BURST_MS = 100;
/** An owner is delayed by this much at the most. */
const MAX_DELAY_MS = 5_000;
/** Owners without debt are forgotten at this number. */
const MAX_OWNERS = 10_000;

const ENDED: ReadonlySet<string> = new Set(['timeout', 'memory', 'limit', 'crash', 'protocol']);

/** @param now ms of a clock that is never put back */
export function createOwnerCosts(
  { sleep }: Pick<Clock, 'sleep'>,
  now: () => number = () => performance.now(),
): OwnerCosts {
  /** What is not paid off yet, as of a time. */
  const debts = new Map<string, { ms: number; at: number }>();

  function debtOf(ownerId: string): number {
    const debt = debts.get(ownerId);
    return debt ? Math.max(0, debt.ms - (now() - debt.at) * SHARE) : 0;
  }

  function forgetSettled(): void {
    for (const ownerId of debts.keys()) if (debtOf(ownerId) === 0) debts.delete(ownerId);
  }

  return {
    charge(ownerId, { events, bytes, result }) {
      const replaced = !result.ok && ENDED.has(result.reason) ? PROCESS_MS : 0;
      const cost = events * EVENT_MS + (bytes / 1024 / 1024) * MEGABYTE_MS + replaced;
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
