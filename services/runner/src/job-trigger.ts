import type { RunJob } from '@wellspring/contract/messages';
import type { Task } from '@wellspring/sandbox/port';
import type { Deployed } from './catalog.ts';
import type { BusyTime, LiveState } from './live-state.ts';
import { timerEvent } from './records.ts';

/** Epoch ms. A tick delayed by downtime counts as due when accepted. */
const arrivedAt = ({ trigger, accepted_at }: RunJob) =>
  trigger.kind === 'timer' ? Math.max(trigger.due_at, accepted_at) : accepted_at;

/** The shortest interval of a timer: in this time each timer of a source has one tick. */
const ONE_MOMENT_MS = 1_000;

type Tick = Extract<RunJob['trigger'], { kind: 'timer' }>;

const isOfMoment = ({ due_at }: Tick, { ticks }: BusyTime) => Math.abs(due_at - ticks.dueAt) < ONE_MOMENT_MS;

/**
 * True for a tick that fell due during a run: it is skipped. Ticks of several timers that fall due at the same moment are
 * all executed. An end in the future means that the clock was put back.
 */
export function isOvertaken(job: RunJob, { busy }: Pick<LiveState, 'busy'>, now: number): boolean {
  const { trigger } = job;
  if (trigger.kind !== 'timer' || trigger.due_at === busy.ticks.dueAt) return false;
  if (isOfMoment(trigger, busy) && !busy.ticks.props.includes(trigger.prop)) return false;
  const dueAt = arrivedAt(job);
  return busy.since < dueAt && dueAt < busy.until && busy.until <= now;
}

/** Notes a run that was executed. With concurrency only ticks follow each other, so only they count. */
export function noteRun(
  job: RunJob,
  { emitter }: Pick<Deployed, 'emitter'>,
  live: Pick<LiveState, 'busy'>,
  { startedAt, endedAt }: { startedAt: number; endedAt: number },
): void {
  const { trigger } = job;
  const isTick = trigger.kind === 'timer';
  if (emitter.concurrency > 1 && !isTick) return;
  const { busy } = live;
  const arrived = arrivedAt(job);
  // Of the ticks that waited for the runner, one run is enough: a tick counts from its arrival.
  const since = isTick ? arrived : startedAt;
  live.busy = {
    since: arrived < busy.until ? Math.min(busy.since, since) : since,
    until: endedAt,
    ticks: isTick ? ticksWith(trigger, busy) : busy.ticks,
  };
}

/** A moment begins with its first tick: ticks that follow each other by less than a second do not prolong it. */
function ticksWith(tick: Tick, busy: BusyTime): BusyTime['ticks'] {
  const { dueAt, props } = busy.ticks;
  if (!isOfMoment(tick, busy)) return { dueAt: tick.due_at, props: [tick.prop] };
  return { dueAt, props: props.includes(tick.prop) ? props : [...props, tick.prop] };
}

/** The run was triggered by `$errors` or `$logs`: its own records are not emitted there. */
export const handlesRecords = ({ trigger }: RunJob): boolean =>
  trigger.kind === 'event' && /^\$(errors|logs)$/.test(trigger.event_name);

/** The trigger as the code receives it. */
export function runTrigger({ trigger }: RunJob): Extract<Task['call'], { kind: 'run' }>['trigger'] {
  if (trigger.kind === 'http') return { kind: 'http', request: trigger.request };
  const json = trigger.kind === 'timer' ? JSON.stringify(timerEvent(trigger)) : (trigger.payload ?? '{}');
  return { kind: 'value', json };
}
