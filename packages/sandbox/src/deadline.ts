/** A time limit that is set anew for each call. Setting it does not touch a timer as long as the limit moves ahead. */
export interface Deadline {
  /** @param at performance.now() at which it expires */
  set(at: number, now: number): void;
  unset(): void;
  close(): void;
}

/** @param expired called when the time that was set last is over and was not unset */
export function createDeadline(expired: () => void): Deadline {
  let at = Number.POSITIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;
  /** When the timer fires, which is never after `at`. */
  let firesAt = Number.POSITIVE_INFINITY;

  function start(now: number): void {
    clearTimeout(timer);
    firesAt = at;
    // The process whose call is limited keeps the event loop alive.
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
