import { newSecret } from '@wellspring/core/ids';
import type { Deps } from '@wellspring/runtime/deps';
import { type UsageRow, usage, usageDay } from '@wellspring/store/collections/users';
import { modify } from '@wellspring/store/port';

export interface UsageMeter {
  /** A run: an invocation and its processor time, at least 100 ms. */
  countRun(ownerId: string, cpuMs: number): void;
  /** Processor time of hooks and definitions, which are not invocations. */
  countTime(ownerId: string, cpuMs: number): void;
  /** Writes the sums counted so far. Never rejects. */
  flush(): Promise<void>;
}

const FLUSH_INTERVAL_MS = 1000;
/** A run counts at least this processor time. */
const MIN_RUN_MS = 100;

interface Sum {
  /** Of the runs: the sum may be written later, after an outage of the store. */
  day: string;
  invocations: number;
  compute_ms: number;
}

/** Repeated as it is until the store has confirmed it. */
interface Write extends Sum {
  /** Counts the writes of this process. */
  n: number;
}

/**
 * Counts runs and processor time per account and day (UTC) in memory, and writes the sums once a second: a crash loses
 * one second of them.
 */
export function createUsageMeter({ store, clock, log }: Pick<Deps, 'store' | 'clock' | 'log'>): UsageMeter {
  const rows = store.collection(usage);
  const thisProcess = newSecret();
  /** By id of the row. */
  const sums = new Map<string, Sum>();
  /** By id of the row: one at a time. */
  const unconfirmed = new Map<string, Write>();
  let writes = 0;
  let flushing: Promise<void> = Promise.resolve();
  /** Only while there are sums: an idle process sleeps. */
  let timer: NodeJS.Timeout | undefined;

  function startTimer(): void {
    timer ??= setTimeout(flush, FLUSH_INTERVAL_MS).unref();
  }

  function count(owner_id: string, invocations: number, cpuMs: number): void {
    // Organizations have no quotas.
    if (!owner_id.startsWith('u_')) return;
    const day = usageDay(clock.now());
    const id = `${owner_id}/${day}`;
    const sum = sums.get(id) ?? { day, invocations: 0, compute_ms: 0 };
    sum.invocations += invocations;
    sum.compute_ms += Math.max(invocations * MIN_RUN_MS, Math.ceil(cpuMs));
    sums.set(id, sum);
    startTimer();
  }

  async function confirm(id: string): Promise<void> {
    const due = unconfirmed.get(id);
    if (!due) return;
    const { day, invocations, compute_ms, n } = due;
    const add = (row: UsageRow): UsageRow =>
      (row.writes?.[thisProcess] ?? 0) >= n
        ? row
        : {
            ...row,
            invocations: row.invocations + invocations,
            compute_ms: row.compute_ms + compute_ms,
            writes: { ...row.writes, [thisProcess]: n },
          };
    while (!(await modify(rows, id, add)))
      await rows.insertMany([{ id, day, invocations: 0, compute_ms: 0 }]);
    unconfirmed.delete(id);
  }

  async function flushOne(id: string): Promise<void> {
    await confirm(id);
    const sum = sums.get(id);
    if (!sum) return;
    sums.delete(id);
    unconfirmed.set(id, { ...sum, n: ++writes });
    await confirm(id);
  }

  async function flushAll(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    for (const id of new Set([...unconfirmed.keys(), ...sums.keys()])) {
      await flushOne(id).catch((error: unknown) =>
        log.warn({ owner_id: id.split('/')[0], error: String(error) }, 'usage.write_failed'),
      );
    }
    if (sums.size + unconfirmed.size > 0) startTimer();
  }

  function flush(): Promise<void> {
    flushing = flushing.then(flushAll);
    return flushing;
  }

  return {
    countRun: (ownerId, cpuMs) => count(ownerId, 1, cpuMs),
    countTime: (ownerId, cpuMs) => count(ownerId, 0, cpuMs),
    flush,
  };
}
