import type { Clock } from '@wellspring/core/clock';
import { createLinkedList, type LinkedList } from '@wellspring/core/linked-list';

export interface WindowLimits {
  /** Places of a key. */
  size: number;
  /** Items of all keys that were displaced and have not left. */
  displaced: number;
  /** Ms until an item that still waits may be displaced. */
  waitingMs: number;
  /** Ms until an item in progress may be displaced. */
  inProgressMs: number;
}

export interface WindowItem {
  /** It is not in progress yet. */
  isWaiting(): boolean;
  /** Its place is given to another one. */
  onDisplaced(): void;
}

/** Bounds what is in flight for each key. */
export interface Windows {
  /**
   * Takes a place; first come, first served.
   * @param displaces while the window is full, items that have held their places for long lose them
   * @returns to be called when the item leaves; a promise if there is no room yet
   */
  enter(key: string, displaces: boolean, item: WindowItem): (() => void) | Promise<() => void>;
}

interface Place {
  item: WindowItem;
  /** Epoch ms. */
  takenAt: number;
  displace(): void;
}

interface Window {
  /** In the order of their times. */
  places: LinkedList<Place>;
  /** Each takes a free place. */
  waiting: (() => void)[];
  isDisplacing: boolean;
}

export function createWindows(limits: WindowLimits, clock: Clock): Windows {
  const windows = new Map<string, Window>();
  let displaced = 0;

  function windowOf(key: string): Window {
    let window = windows.get(key);
    if (!window) {
      window = { places: createLinkedList(), waiting: [], isDisplacing: false };
      windows.set(key, window);
    }
    return window;
  }

  function take(key: string, window: Window, item: WindowItem): () => void {
    let state: 'held' | 'displaced' | 'left' = 'held';
    const free = () => {
      remove();
      window.waiting.shift()?.();
      if (window.places.size === 0) windows.delete(key);
    };
    const place: Place = {
      item,
      takenAt: clock.now(),
      displace() {
        state = 'displaced';
        displaced += 1;
        free();
        item.onDisplaced();
      },
    };
    const remove = window.places.append(place);
    return () => {
      if (state === 'displaced') displaced -= 1;
      if (state === 'held') free();
      state = 'left';
    };
  }

  /** Ms until the place may be given to another one. */
  function timeLeft({ item, takenAt }: Place): number {
    const elapsed = clock.now() - takenAt;
    // The clock may have been set back.
    if (elapsed < 0) return 0;
    return (item.isWaiting() ? limits.waitingMs : limits.inProgressMs) - elapsed;
  }

  async function displace(window: Window): Promise<void> {
    window.isDisplacing = true;
    while (window.waiting.length > 0) {
      let next: Place | undefined;
      let left = limits.inProgressMs;
      if (displaced < limits.displaced) {
        for (const place of window.places) {
          left = Math.min(left, timeLeft(place));
          if (left > 0) continue;
          next = place;
          break;
        }
      }
      if (next) next.displace();
      else await clock.sleep(left);
    }
    window.isDisplacing = false;
  }

  return {
    enter(key, displaces, item) {
      const window = windowOf(key);
      if (window.places.size < limits.size) return take(key, window, item);
      return new Promise((resolve) => {
        window.waiting.push(() => resolve(take(key, window, item)));
        if (displaces && !window.isDisplacing) void displace(window);
      });
    },
  };
}
