import type { Clock } from '@wellspring/core/clock';
import { createLinkedList, type LinkedList } from '@wellspring/core/linked-list';

/** Bounds what is in flight for each key. */
export interface Windows {
  /**
   * Takes a place; first come, first served.
   * @param displaces while the window is full, places that have been held for `maxHeldMs` are freed
   * @param onDisplaced called when this place is freed for another one
   * @returns frees the place; a promise if there is no room yet
   */
  enter(key: string, displaces: boolean, onDisplaced: () => void): (() => void) | Promise<() => void>;
}

interface Place {
  /** Epoch ms. */
  takenAt: number;
  onDisplaced: () => void;
  free: () => void;
}

interface Window {
  /** In the order of their times. */
  places: LinkedList<Place>;
  /** Each takes a free place. */
  waiting: (() => void)[];
  isDisplacing: boolean;
}

/**
 * @param size in flight per key
 * @param maxHeldMs while others wait
 */
export function createWindows(size: number, maxHeldMs: number, clock: Clock): Windows {
  const windows = new Map<string, Window>();

  function windowOf(key: string): Window {
    let window = windows.get(key);
    if (!window) {
      window = { places: createLinkedList(), waiting: [], isDisplacing: false };
      windows.set(key, window);
    }
    return window;
  }

  function take(key: string, window: Window, onDisplaced: () => void): () => void {
    let isFree = false;
    const free = () => {
      if (isFree) return;
      isFree = true;
      remove();
      window.waiting.shift()?.();
      if (window.places.size === 0) windows.delete(key);
    };
    const remove = window.places.append({ takenAt: clock.now(), onDisplaced, free });
    return free;
  }

  /** Ms until the time of the oldest place is over. */
  function timeLeft({ places }: Window): number {
    const elapsed = clock.now() - places.first!.takenAt;
    // The clock may have been set back.
    return elapsed < 0 ? 0 : maxHeldMs - elapsed;
  }

  async function displace(window: Window): Promise<void> {
    window.isDisplacing = true;
    while (window.waiting.length > 0) {
      const left = timeLeft(window);
      if (left > 0) {
        await clock.sleep(left);
        continue;
      }
      const { free, onDisplaced } = window.places.first!;
      free();
      onDisplaced();
    }
    window.isDisplacing = false;
  }

  return {
    enter(key, displaces, onDisplaced) {
      const window = windowOf(key);
      if (window.places.size < size) return take(key, window, onDisplaced);
      return new Promise((resolve) => {
        window.waiting.push(() => resolve(take(key, window, onDisplaced)));
        if (displaces && !window.isDisplacing) void displace(window);
      });
    },
  };
}
