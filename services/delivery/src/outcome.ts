import { parseRetryAfter, retryDelay } from '@wellspring/core/retry-delay';
import { type Attempt, attemptsOf, type DeliveryRow } from '@wellspring/store/collections/webhooks';

/** The result of one POST. */
export interface Reply {
  /** HTTP status, or null without an answer. */
  status: number | null;
  error: string | null;
  retryAfter?: string | undefined;
  /** First part of the response; absent without an answer. */
  headers?: Record<string, string>;
  body?: string;
  durationMs: number;
}

/** `error` of an attempt that the platform ended before its time limit. */
export const ENDED = 'no answer, and other receivers needed the permit';
/** `error` of a delivery that was due while its webhook was paused or disabled. */
const INACTIVE = 'not attempted: the webhook is not active';
/** Ended attempts of a delivery that do not count as its attempts; further ones do, so that it fails in the end. */
const MAX_ENDED = 5;

/** Attempts listed in a delivery, newest ones. */
export const MAX_LOGGED_ATTEMPTS = 20;

const logOf = (former: readonly Attempt[], attempt: Attempt) =>
  JSON.stringify([...former, attempt].slice(-MAX_LOGGED_ATTEMPTS));

export type Verdict = 'delivered' | 'retry' | 'failed' | 'gone';

export interface Outcome {
  verdict: Verdict;
  /** Fields to set on the row. */
  fields: Partial<DeliveryRow> & Pick<DeliveryRow, 'status' | 'attempts' | 'due_at' | 'failed_at_ms' | 'log'>;
}

/**
 * The outcome of an attempt: 2xx delivers; 410 fails permanently and disables the webhook; anything else is retried
 * after core/retry-delay, not before `Retry-After`, and fails after the last retry. The first MAX_ENDED attempts that the
 * platform ended do not count: each is repeated after the first of these delays.
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
  const former = attemptsOf(row);
  const attempt: Attempt = {
    n: attempts,
    at: startedAt,
    duration_ms: Math.round(reply.durationMs),
    status: reply.status,
    error: reply.error,
    ...(reply.headers && { headers: reply.headers }),
    ...(reply.body && { body: reply.body }),
  };
  const log = logOf(former, attempt);
  if (reply.status !== null && reply.status >= 200 && reply.status < 300) {
    return {
      verdict: 'delivered',
      // The event has the payload.
      fields: { status: 'delivered', attempts, due_at: null, failed_at_ms: null, log, payload: '' },
    };
  }
  if (reply.error === ENDED && former.filter(({ error }) => error === ENDED).length < MAX_ENDED) {
    const due_at = now + retryDelay(1, random)!;
    return {
      verdict: 'retry',
      fields: { status: 'pending', attempts: row.attempts, due_at, failed_at_ms: null, log },
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

/** Fields of a delivery whose webhook is not active: it fails without an attempt. @param now epoch ms */
export function inactive(row: DeliveryRow, now: number): Outcome['fields'] {
  const { attempts } = row;
  const former = attemptsOf(row);
  const last = former.at(-1);
  const reason = { n: attempts + 1, at: now, duration_ms: 0, status: null, error: INACTIVE };
  // Its own attempt disabled the webhook, and a crash left it pending.
  const log = last?.n === attempts && last.status === 410 ? row.log : logOf(former, reason);
  return { status: 'failed', attempts, due_at: null, failed_at_ms: now, log };
}
