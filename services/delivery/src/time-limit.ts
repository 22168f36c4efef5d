/** Limit of one request. */
export interface TimeLimit {
  /** Aborted when the time is over, or when `ended` is; its reason is the error text. */
  signal: AbortSignal;
  abort(reason: string): void;
  /** To be called at the end of the request. */
  clear(): void;
}

/**
 * Aborts after the sockets have been read once more: an answer that came while the process did not run, as in a pause of
 * its machine, counts, and the request is not repeated.
 */
export function startTimeLimit(timeoutMs: number, ended?: AbortSignal): TimeLimit {
  const controller = new AbortController();
  // The first one may run in this turn of the event loop, the second one runs after the input of the next one.
  const abort = (reason: unknown) => setImmediate(() => setImmediate(() => controller.abort(reason)));
  const timer = setTimeout(abort, timeoutMs, `no answer within ${timeoutMs / 1000} s`);
  const onEnded = () => abort(ended?.reason);
  if (ended?.aborted) onEnded();
  ended?.addEventListener('abort', onEnded);
  return {
    signal: controller.signal,
    abort,
    clear() {
      clearTimeout(timer);
      ended?.removeEventListener('abort', onEnded);
    },
  };
}
