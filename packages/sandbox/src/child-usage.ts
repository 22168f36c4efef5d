import { type Account, openAccount } from './accounting.ts';
import { type Excess, exceeded, tmpExceeded } from './resource-limits.ts';
import type { Slot } from './slots.ts';
import type { Tier } from './tiers/tier.ts';

/** What one child uses, as the kernel counts it. Where nothing can be counted, nothing is limited or stopped. */
export interface ChildUsage {
  /** Begins to count; what was used before is charged to nobody. The process has to be ready. */
  begin(): void;
  /**
   * Processor time in ms since this was asked for the last time. Time that the process uses after the end of a call is
   * charged to the next one: nothing that it uses is lost, whatever its frames say about ends.
   * @param durationMs of the call: the answer where nothing can be counted
   */
  takeCpuMs(durationMs: number): number;
  /**
   * Looks at everything that is limited.
   * @param maxCpuMs of the call under way, since the last take; undefined: there is none
   * @returns what the process has more of than it may have
   */
  findExcess(maxCpuMs: number | undefined): Promise<Excess | undefined>;
  /** Bytes of memory that are its own, while the kernel tells. */
  privateBytes(): number | undefined;
  /** Stops the process until `resume`. @returns false where that is not possible */
  stop(): boolean;
  resume(): void;
  close(): void;
}

/** A call that takes less is not worth a sample of its other threads. */
const MIN_SAMPLED_MS = 5;

/** @param pid of the process that the tier has started */
export function createChildUsage(tier: Tier, slot: Slot, pid: number | undefined): ChildUsage {
  let account: Account | undefined;
  /** Processor time that is part of a result already. */
  let chargedMs = 0;
  return {
    begin() {
      account ??= openAccount(pid, tier.relaysStops);
      chargedMs = account?.cpuMs() ?? 0;
    },
    takeCpuMs(durationMs) {
      if (!account) return durationMs;
      if (durationMs > MIN_SAMPLED_MS) account.sample();
      const before = chargedMs;
      chargedMs = account.cpuMs();
      return chargedMs - before;
    },
    async findExcess(maxCpuMs) {
      const sample = account?.sample();
      if (!account || !sample) return undefined;
      // Limited like the duration of the call: threads may use more of it.
      if (maxCpuMs !== undefined && account.cpuMs() - chargedMs > maxCpuMs)
        return { reason: 'timeout', message: `It used more than ${maxCpuMs / 1000} s of processor time.` };
      return exceeded(sample) ?? (await tmpExceeded(tier, slot, account));
    },
    privateBytes: () => account?.privateBytes(),
    stop: () => account?.stop() ?? false,
    resume: () => account?.resume(),
    close: () => account?.close(),
  };
}
