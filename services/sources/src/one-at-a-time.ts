/** Work on one key is done one after the other, in the order of the calls; different keys do not wait. */
export function createKeyedQueue() {
  const tails = new Map<string, Promise<unknown>>();
  return async <T>(key: string, work: () => Promise<T>): Promise<T> => {
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
}
export type KeyedQueue = ReturnType<typeof createKeyedQueue>;
