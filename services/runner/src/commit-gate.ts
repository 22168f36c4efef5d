import { Unavailable } from '@wellspring/core/unavailable';
import type { Deps } from '@wellspring/runtime/deps';

/**
 * Holds runs while the store takes no commits (an outage, a full disk): executed runs are committed later instead of being
 * executed again, and no run starts before the store takes writes.
 */
export interface CommitGate {
  /**
   * Retries `work` of an executed run while the store is unavailable, until `isOver`. The version of the state makes that safe
   * for commits.
   */
  retry<T>(work: () => Promise<T>, isOver?: () => boolean): Promise<T>;
  /** Resolves at once, or when a commit is held, as soon as the store takes writes. */
  opened(): Promise<void>;
  /** The process stops: nothing is retried any longer. */
  close(): void;
}

const PROBE_INTERVAL_MS = 1_000;

export function createCommitGate({ store, clock, log }: Pick<Deps, 'store' | 'clock' | 'log'>): CommitGate {
  const closing = new AbortController();
  let probing: Promise<void> | undefined;

  async function probe(): Promise<void> {
    for (let isUp = false; !isUp && !closing.signal.aborted; ) {
      await clock.sleep(PROBE_INTERVAL_MS, closing.signal);
      isUp = await store.ping().then(
        () => true,
        () => false,
      );
    }
    probing = undefined;
  }

  return {
    async retry(work, isOver = () => false) {
      for (;;) {
        try {
          return await work();
        } catch (error) {
          if (!(error instanceof Unavailable) || isOver() || closing.signal.aborted) throw error;
          if (!probing) log.warn({ error: error.message }, 'commit.held');
        }
        probing ??= probe();
        await probing;
      }
    },
    async opened() {
      while (probing && !closing.signal.aborted) await probing;
    },
    close: () => closing.abort(),
  };
}
