import { setTimeout } from 'node:timers/promises';
import { type Account, openAccount } from './accounting.ts';
import type { ProcessDirectory } from './process-directories.ts';
import { checkTmp, type Excess, exceeded } from './resource-limits.ts';
import type { Tier } from './tiers/tier.ts';

/** Resource usage of one child, from the kernel. Without `/proc` nothing is limited or stopped. */
export interface ChildUsage {
  /** Starts the accounting; earlier usage is not charged. The process has to be ready. */
  begin(): void;
  /**
   * Processor time in ms since the previous call of this method. Time used after the end of a call is charged to the
   * next one, so that forged ends hide nothing. Of a process that has ended by itself, it includes the whole time since
   * the last figure, since the kernel no longer tells what it has used.
   * @param durationMs duration of the call: the result without `/proc`
   */
  takeCpuMs(durationMs: number): number;
  /** As `takeCpuMs`, after a call; the time of one that was short may be charged to a later one, within 10 ms. */
  takeCallCpuMs(durationMs: number): number;
  /** Reads the processor time of all threads while the process exists; `takeCpuMs` then works after its end, too. */
  sample(): void;
  /**
   * Checks all resource limits, and measures the memory.
   * @param maxCpuMs limit of the current call since `takeCpuMs`; undefined: there is no call
   * @param isQuick measures a process that has not changed only at each tenth check
   * @returns the exceeded limit
   */
  findExcess(maxCpuMs: number | undefined, isQuick?: boolean): Promise<Excess | undefined>;
  /** See SharedProcess. */
  cpuMs(ofAllThreads: boolean): number | undefined;
  /** Memory that is not shared with other processes, with a tmpfs; undefined: it has not been measured. */
  readonly memoryBytes: number | undefined;
  /** Stops the process until `resume`. @returns false if that is not possible */
  stop(): boolean;
  resume(): void;
  close(): void;
}

/** Time from the end of the main thread to that of the last one, when a process exits. */
const MAX_EXIT_MS = 200;
/** For shorter calls the other threads are not sampled. */
const MIN_SAMPLED_MS = 5;
/** Reading the figure of the kernel takes several per cent of a shorter call. */
const MIN_READ_MS = 0.5;
const MAX_UNREAD_MS = 10;
const MAX_QUICK_CHECKS = 9;

/** @param pid process that the tier has started */
export function createChildUsage(
  tier: Tier,
  directory: ProcessDirectory,
  pid: number | undefined,
): ChildUsage {
  let account: Account | undefined;
  /** Processor time that earlier results contain. */
  let chargedMs = 0;
  /** `performance.now()` when it was determined. */
  let chargedAt = 0;
  let privateBytes: number | undefined;
  let tmpBytes = 0;
  /** Quick checks since the last complete one. */
  let quickChecks = 0;

  function takeCpuMs(durationMs: number): number {
    if (!account) return durationMs;
    if (durationMs > MIN_SAMPLED_MS) account.sampleCpu();
    const before = chargedMs;
    chargedMs = account.cpuMs();
    chargedAt = performance.now();
    return chargedMs - before + Math.min(durationMs, account.unreadMs());
  }

  return {
    begin() {
      account = openAccount(pid, tier.relaysStops);
      // The threads besides the main one have used time, too.
      account?.sampleCpu();
      chargedMs = account?.cpuMs() ?? 0;
    },
    takeCpuMs,
    takeCallCpuMs(durationMs) {
      const isLater = durationMs < MIN_READ_MS && performance.now() - chargedAt < MAX_UNREAD_MS;
      return account && isLater ? 0 : takeCpuMs(durationMs);
    },
    sample: () => account?.sampleCpu(),
    async findExcess(maxCpuMs, isQuick = false) {
      if (isQuick && quickChecks < MAX_QUICK_CHECKS && account?.hasChanged() === false) {
        quickChecks += 1;
        return undefined;
      }
      quickChecks = 0;
      let sample = account?.sample();
      if (sample?.isWithoutMainThread) {
        // The threads of a process that exits end one after the other.
        await setTimeout(MAX_EXIT_MS);
        sample = account?.sample();
      }
      if (!account || !sample) return undefined;
      // The same limit as for the duration, which several threads can exceed earlier.
      if (maxCpuMs !== undefined && account.cpuMs() - chargedMs > maxCpuMs)
        return {
          reason: 'timeout',
          message: `The call used more than ${maxCpuMs / 1000} s of processor time.`,
        };
      const excess = exceeded(sample);
      if (excess) return excess;
      privateBytes = sample.privateBytes;
      const tmp = await checkTmp(tier, directory, account);
      tmpBytes = tmp.memoryBytes;
      return tmp.excess;
    },
    cpuMs(ofAllThreads) {
      if (ofAllThreads) account?.sampleCpu();
      return account?.cpuMs();
    },
    get memoryBytes() {
      return privateBytes === undefined ? undefined : privateBytes + tmpBytes;
    },
    stop: () => account?.stop() ?? false,
    resume: () => account?.resume(),
    close: () => account?.close(),
  };
}
