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
  owner_id: string;
  /** Of the runs: the sum may be written later, after an outage of the store. */
  day: string;
  invocations: number;
  compute_ms: number;
}

/**
 * Counts runs and processor time per account and day (UTC) in memory, and writes the sums once a second: a crash loses
 * one second of them.
 */
export function createUsageMeter({ store, clock, log }: Pick<Deps, 'store' | 'clock' | 'log'>): UsageMeter {
  const rows = store.collection(usage);
  /** By id of the row. */
  let sums = new Map<string, Sum>();
  /** Only while there are sums: an idle process sleeps. */
  let timer: NodeJS.Timeout | undefined;

  function add({ owner_id, day, invocations, compute_ms }: Sum): void {
    const id = `${owner_id}/${day}`;
    const sum = sums.get(id) ?? { owner_id, day, invocations: 0, compute_ms: 0 };
    sum.invocations += invocations;
    sum.compute_ms += compute_ms;
    sums.set(id, sum);
    timer ??= setTimeout(flush, FLUSH_INTERVAL_MS).unref();
  }

  function count(owner_id: string, invocations: number, cpuMs: number): void {
    // Organizations have no quotas.
    if (!owner_id.startsWith('u_')) return;
    add({ owner_id, day: usageDay(clock.now()), invocations, compute_ms: Math.ceil(cpuMs) });
  }

  async function flush(): Promise<void> {
    const due = sums;
    sums = new Map();
    clearTimeout(timer);
    timer = undefined;
    for (const [id, sum] of due) {
      const { owner_id, day, invocations, compute_ms } = sum;
      await rows
        .increment(id, { invocations, compute_ms }, { id, day, invocations: 0, compute_ms: 0 })
        .catch((error: unknown) => {
          add(sum);
          log.warn({ owner_id, error: String(error) }, 'usage.write_failed');
        });
    }
  }

  return {
    countRun: (ownerId, cpuMs) => count(ownerId, 1, cpuMs),
    countTime: (ownerId, cpuMs) => count(ownerId, 0, cpuMs),
    flush,
  };
}
