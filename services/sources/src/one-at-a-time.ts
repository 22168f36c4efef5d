/** Serializes work per key, in the order of the calls; different keys do not wait. */
export interface KeyedQueue {
  <T>(key: string, work: () => Promise<T>): Promise<T>;
  /** Whether work on the key is waiting or in progress. */
  busy(key: string): boolean;
}

export function createKeyedQueue(): KeyedQueue {
  const tails = new Map<string, Promise<unknown>>();
  const enqueue = async <T>(key: string, work: () => Promise<T>): Promise<T> => {
    const before = tails.get(key) ?? Promise.resolve();
    const mine = before.then(work, work);
    const tail = mine.catch(() => {});
    tails.set(key, tail);
    try {
      return await mine;
    } finally {
      if (tails.get(key) === tail) tails.delete(key);
    }
  };
  return Object.assign(enqueue, { busy: (key: string) => tails.has(key) });
}
