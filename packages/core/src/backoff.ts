import { randomInt } from 'node:crypto';

export interface Backoff {
  /** Delay after the first failure. */
  baseMs: number;
  maxMs: number;
  /** Up to this much is taken off at random, so that processes do not retry at the same moment. Default 0. */
  jitterMs?: number;
}

/** Exponential backoff: ms to wait after `attempt` failures in a row (counted from 1). */
export function backoff(attempt: number, { baseMs, maxMs, jitterMs = 0 }: Backoff): number {
  const delay = Math.min(baseMs * 2 ** Math.max(0, attempt - 1), maxMs);
  return jitterMs > 0 ? delay - randomInt(jitterMs) : delay;
}
