/** Bounds what is in flight for each key. */
export interface Windows {
  /** Resolves when there is room; first come, first served. */
  enter(key: string): Promise<void> | undefined;
  leave(key: string): void;
}

/** @param size in flight per key */
export function createWindows(size: number): Windows {
  const windows = new Map<string, { inFlight: number; waiting: (() => void)[] }>();
  return {
    enter(key) {
      let window = windows.get(key);
      if (!window) {
        window = { inFlight: 0, waiting: [] };
        windows.set(key, window);
      }
      if (window.inFlight < size) {
        window.inFlight += 1;
        return undefined;
      }
      return new Promise((resolve) => window.waiting.push(resolve));
    },
    leave(key) {
      const window = windows.get(key)!;
      const next = window.waiting.shift();
      if (next) return next();
      window.inFlight -= 1;
      if (window.inFlight === 0) windows.delete(key);
    },
  };
}
