import { backoff } from '@wellspring/core/backoff';
import type { WebhookRow } from '@wellspring/store/collections/webhooks';

/** Outcome of the latest attempts, as in the row of the webhook. */
export type Health = Pick<WebhookRow, 'failures' | 'tried_at'>;

const PAUSE = { baseMs: 250, maxMs: 60_000 };
/** A pause that seems to last longer was begun before the clock was set back. */
const MAX_PAUSE_MS = PAUSE.maxMs + 10_000;

/** Epoch ms until which the webhook is not tried. */
export const pausedUntil = ({ failures, tried_at }: Health): number =>
  failures ? tried_at + backoff(failures, PAUSE) : 0;

/** Whether the webhook is not tried at this time. @param now epoch ms */
export function isPausedAt(health: Health, now: number): boolean {
  const left = pausedUntil(health) - now;
  return health.failures !== 0 && left > 0 && left <= MAX_PAUSE_MS;
}
