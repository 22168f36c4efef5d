import type { RunJob } from '@wellspring/contract/messages';
import type { Task } from '@wellspring/sandbox/port';
import type { Deployed } from './catalog.ts';
import type { Live } from './live-state.ts';
import { timerEvent } from './records.ts';

/**
 * A tick that fell due while the source was running is not made up for; one that comes late, after a downtime, fell due
 * when it was seen. An end in the future is that of a clock which was put back since.
 */
export function isOvertaken(
  { trigger, accepted_at }: RunJob,
  { source }: Deployed,
  live: Live,
  now: number,
): boolean {
  if (trigger.kind !== 'timer') return false;
  const endedAt = source.concurrency > 1 ? live.tickEndedAt : live.runEndedAt;
  return Math.max(trigger.due_at, accepted_at) < endedAt && endedAt <= now;
}

/** What the code is given. */
export function runTrigger({ trigger }: RunJob): Extract<Task['call'], { kind: 'run' }>['trigger'] {
  if (trigger.kind === 'http') return { kind: 'http', request: trigger.request };
  const json = trigger.kind === 'timer' ? JSON.stringify(timerEvent(trigger)) : (trigger.payload ?? '{}');
  return { kind: 'value', json };
}
