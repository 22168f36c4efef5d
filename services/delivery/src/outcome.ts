import { parseRetryAfter, retryDelay } from '@wellspring/core/retry-delay';
import type { Attempt, DeliveryRow } from '@wellspring/store/collections/webhooks';

/** What came back from one POST. */
export interface Reply {
  /** HTTP status, or null when there was no answer. */
  status: number | null;
  error: string | null;
  retryAfter?: string | undefined;
  durationMs: number;
}

/** The newest attempts that a delivery keeps. */
export const ATTEMPTS_KEPT = 20;

export type Verdict = 'delivered' | 'retry' | 'failed' | 'gone';

export interface Outcome {
  verdict: Verdict;
  /** Fields to be set on the row. */
  fields: Pick<DeliveryRow, 'status' | 'attempts' | 'due_at' | 'failed_at_ms' | 'log'>;
}

/**
 * What an attempt makes of a delivery: 2xx delivers; 410 fails it for good (and the webhook is to be disabled);
 * anything else is repeated as core/retry-delay says, not before `Retry-After`, and fails after the last one.
 * @param random in [0, 1)
 */
export function outcomeOf(
  row: DeliveryRow,
  reply: Reply,
  startedAt: number,
  now: number,
  random: number,
): Outcome {
  const attempts = row.attempts + 1;
  const attempt: Attempt = {
    n: attempts,
    at: startedAt,
    duration_ms: Math.round(reply.durationMs),
    status: reply.status,
    error: reply.error,
  };
  const log = [...row.log, attempt].slice(-ATTEMPTS_KEPT);
  if (reply.status !== null && reply.status >= 200 && reply.status < 300) {
    return {
      verdict: 'delivered',
      fields: { status: 'delivered', attempts, due_at: null, failed_at_ms: null, log },
    };
  }
  const wait =
    reply.status === 410 ? undefined : retryDelay(attempts, random, parseRetryAfter(reply.retryAfter, now));
  if (wait === undefined) {
    return {
      verdict: reply.status === 410 ? 'gone' : 'failed',
      fields: { status: 'failed', attempts, due_at: null, failed_at_ms: now, log },
    };
  }
  return {
    verdict: 'retry',
    fields: { status: 'pending', attempts, due_at: now + wait, failed_at_ms: null, log },
  };
}
