import type { RunJob } from '@wellspring/contract/messages';
import type { Task } from '@wellspring/sandbox/port';
import type { Deployed } from './catalog.ts';
import type { LiveState } from './live-state.ts';
import { timerEvent } from './records.ts';

/**
 * True for a tick that fell due during a run: it is skipped. A tick delayed by downtime counts as due when accepted. An
 * end in the future means that the clock was put back.
 */
export function isOvertaken(
  { trigger, accepted_at }: RunJob,
  { emitter }: Deployed,
  live: LiveState,
  now: number,
): boolean {
  if (trigger.kind !== 'timer') return false;
  const endedAt = emitter.concurrency > 1 ? live.tickEndedAt : live.runEndedAt;
  return Math.max(trigger.due_at, accepted_at) < endedAt && endedAt <= now;
}

/** The trigger as the code receives it. */
export function runTrigger({ trigger }: RunJob): Extract<Task['call'], { kind: 'run' }>['trigger'] {
  if (trigger.kind === 'http') return { kind: 'http', request: trigger.request };
  const json = trigger.kind === 'timer' ? JSON.stringify(timerEvent(trigger)) : (trigger.payload ?? '{}');
  return { kind: 'value', json };
}
