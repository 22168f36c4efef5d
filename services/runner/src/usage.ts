import type { Deps } from '@wellspring/runtime/deps';
import { usage, usageDay } from '@wellspring/store/collections/users';

export interface UsageMeter {
  /** A run of a source: an invocation and its processor time. */
  countRun(ownerId: string, cpuMs: number): void;
  /** Processor time of hooks and definitions, which are not invocations. */
  countTime(ownerId: string, cpuMs: number): void;
  /** Writes the sums counted since the last flush. Never rejects. */
  flush(): Promise<void>;
}

const FLUSH_INTERVAL_MS = 1000;

interface Sum {
  invocations: number;
  compute_ms: number;
}

/**
 * Counts runs and processor time per account and day (UTC) in memory, and writes the sums once a second: a crash loses
 * one second of them.
 */
export function createUsageMeter({ store, clock, log }: Pick<Deps, 'store' | 'clock' | 'log'>): UsageMeter {
  const rows = store.collection(usage);
  let sums = new Map<string, Sum>();
  /** Only while there are sums: an idle process sleeps. */
  let timer: NodeJS.Timeout | undefined;

  function add(ownerId: string, { invocations, compute_ms }: Sum): void {
    // Organizations have no quotas.
    if (!ownerId.startsWith('u_')) return;
    const sum = sums.get(ownerId) ?? { invocations: 0, compute_ms: 0 };
    sum.invocations += invocations;
    sum.compute_ms += compute_ms;
    sums.set(ownerId, sum);
    timer ??= setTimeout(flush, FLUSH_INTERVAL_MS).unref();
  }

  async function flush(): Promise<void> {
    const day = usageDay(clock.now());
    const due = sums;
    sums = new Map();
    clearTimeout(timer);
    timer = undefined;
    for (const [ownerId, by] of due) {
      await rows
        .increment(`${ownerId}/${day}`, by, { id: `${ownerId}/${day}`, day, invocations: 0, compute_ms: 0 })
        .catch((error: unknown) => {
          add(ownerId, by);
          log.warn({ owner_id: ownerId, error: String(error) }, 'usage.write_failed');
        });
    }
  }

  return {
    countRun: (ownerId, cpuMs) => add(ownerId, { invocations: 1, compute_ms: Math.ceil(cpuMs) }),
    countTime: (ownerId, cpuMs) => add(ownerId, { invocations: 0, compute_ms: Math.ceil(cpuMs) }),
    flush,
  };
}
