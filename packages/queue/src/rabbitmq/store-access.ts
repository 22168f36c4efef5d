import { type Backoff, backoff } from '@wellspring/core/backoff';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';

export interface StoreAccess {
  /** Retries until it succeeds, while the lease is certain; undefined if the partition was released or lost first. */
  persist<T>(what: string, work: () => Promise<T>): Promise<T | undefined>;
  /** The same, awaited by `written`. */
  write(what: string, work: () => Promise<unknown>): void;
  written(): Promise<unknown>;
}

export interface StoreAccessOptions {
  clock: Clock;
  log: Log;
  /** Of the partition. */
  name: string;
  /** False while the lease is not certain. */
  mayStart(): boolean;
  closing: AbortSignal;
}

const STORE_BACKOFF: Backoff = { baseMs: 100, maxMs: 2_000 };

/** Reads and writes of the store in the name of a partition. */
export function createStoreAccess({ clock, log, name, mayStart, closing }: StoreAccessOptions): StoreAccess {
  const writing = new Set<Promise<unknown>>();

  async function persist<T>(what: string, work: () => Promise<T>): Promise<T | undefined> {
    for (let failures = 1; !closing.aborted; failures++) {
      try {
        if (mayStart()) return await work();
      } catch (error) {
        log.warn({ partition: name, what, error: String(error) }, 'queue.store_failed');
      }
      await clock.sleep(backoff(failures, STORE_BACKOFF), closing);
    }
    return undefined;
  }

  return {
    persist,
    write(what, work) {
      const written = persist(what, work).finally(() => writing.delete(written));
      writing.add(written);
    },
    written: () => Promise.all(writing),
  };
}
