/** A time limit that is reset for each call. Moving it to a later time does not restart the timer. */
export interface Deadline {
  /** @param at performance.now() at which it expires */
  set(at: number, now: number): void;
  unset(): void;
  close(): void;
}

/** @param expired called at the time that was set last, unless it was unset */
export function createDeadline(expired: () => void): Deadline {
  let at = Number.POSITIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;
  /** When the timer fires: never later than `at`. */
  let firesAt = Number.POSITIVE_INFINITY;

  function start(now: number): void {
    clearTimeout(timer);
    firesAt = at;
    // The process of the call keeps the event loop alive.
    timer = setTimeout(fire, Math.max(1, Math.ceil(at - now))).unref();
  }

  function fire(): void {
    timer = undefined;
    firesAt = Number.POSITIVE_INFINITY;
    if (at === Number.POSITIVE_INFINITY) return;
    const now = performance.now();
    if (now < at) start(now);
    else expired();
  }

  return {
    set(time, now) {
      at = time;
      if (at < firesAt) start(now);
    },
    unset() {
      at = Number.POSITIVE_INFINITY;
    },
    close() {
      clearTimeout(timer);
      timer = undefined;
      firesAt = Number.POSITIVE_INFINITY;
      at = Number.POSITIVE_INFINITY;
    },
  };
}
