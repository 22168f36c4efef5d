import { Cron } from 'croner';
import { systemClock } from './clock.ts';
import { invalidParameter } from './problem.ts';

/** Ticks every n seconds after its start, or by a cron expression in a time zone. */
export type Schedule =
  | { kind: 'interval'; seconds: number }
  | { kind: 'cron'; cron: string; timezone: string };

const NICKNAME = /^@(hourly|daily|midnight|weekly|monthly|yearly|annually)$/;
const MAX_CRON_LENGTH = 500;
const MAX_INTERVAL_SECONDS = 366 * 24 * 3600;

/**
 * Reads the value of a timer prop: `{intervalSeconds}`, `{interval_seconds}` or `{cron, timezone?}`.
 * @param param the prop's name, for the error
 * @throws Problem 400: malformed, below the minimum, not a cron of five fields, or one that never ticks
 */
export function parseSchedule(value: unknown, param: string, minSeconds: number): Schedule {
  const refuse = (why: string) => invalidParameter(param, `${param} ${why}`);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw refuse('has to be an object with intervalSeconds or cron.');
  }
  const given = value as Record<string, unknown>;
  const cron = given.cron ?? undefined;
  const interval = given.intervalSeconds ?? given.interval_seconds ?? undefined;
  if (cron !== undefined) return parseCron(cron, given.timezone ?? undefined, refuse);
  const seconds = typeof interval === 'string' && /^\d+$/.test(interval) ? Number(interval) : interval;
  if (typeof seconds !== 'number' || !Number.isInteger(seconds)) {
    throw refuse('needs intervalSeconds, an integer, or cron.');
  }
  if (seconds < minSeconds) throw refuse(`has an interval of ${seconds} s; the minimum is ${minSeconds} s.`);
  if (seconds > MAX_INTERVAL_SECONDS) throw refuse('has an interval of more than a year.');
  return { kind: 'interval', seconds };
}

function parseCron(cron: unknown, timezone: unknown, refuse: (why: string) => Error): Schedule {
  if (typeof cron !== 'string') throw refuse('has a cron that is not a string.');
  // Parsed for each tick, on the main thread.
  if (cron.length > MAX_CRON_LENGTH) throw refuse(`has a cron of more than ${MAX_CRON_LENGTH} characters.`);
  const text = cron.trim();
  if (!NICKNAME.test(text) && text.split(/\s+/).length !== 5) {
    throw refuse('needs a cron expression of five fields, or a nickname such as @hourly.');
  }
  if (timezone !== undefined && typeof timezone !== 'string')
    throw refuse('has a timezone that is not a string.');
  const [, , day = '', , weekday = ''] = text.split(/\s+/);
  if (weekday.startsWith('+') && (/[LW]/i.test(day) || /[L#]/i.test(weekday)))
    throw refuse('has a cron expression that combines + with L, W or #.');
  const schedule: CronSchedule = { kind: 'cron', cron: text, timezone: timezone ?? 'UTC' };
  try {
    new Intl.DateTimeFormat('en', { timeZone: schedule.timezone });
  } catch {
    throw refuse(`has the unknown timezone ${schedule.timezone}.`);
  }
  let next: Date | null;
  try {
    next = nextRun(schedule, systemClock.now());
  } catch (error) {
    throw refuse(`has an invalid cron expression: ${reasonOf(error as Error)}`);
  }
  if (next === null) throw refuse('has a cron expression that never comes due.');
  return schedule;
}

/** The library counts months and days from 0. */
const reasonOf = ({ message }: Error) =>
  message
    .replace('CronPattern: ', '')
    .replace('nearestWeekdays', 'day')
    .replace(/(?<=value for (?:month|day): )-?\d+/, (value) => String(Number(value) + 1));

type CronSchedule = Extract<Schedule, { kind: 'cron' }>;

const weekdayOf = (...date: [year: number, month: number, day: number]) =>
  new Date(Date.UTC(...date)).getUTCDay();

/** The first year from `year` on of each of the 14 calendars: a date that is in none of them does not exist. */
function yearOfEachCalendar(year: number): number[] {
  const years = new Map<string, number>();
  for (let next = year; years.size < 14; next++) {
    const calendar = `${weekdayOf(next, 0, 1)} ${weekdayOf(next, 11, 31)}`;
    if (!years.has(calendar)) years.set(calendar, next);
  }
  return [...years.values()];
}

/**
 * The next tick of a cron; null if there is none. Limits the years that the library searches: a search of all its 400
 * years blocks the main thread for up to two seconds.
 */
function nextRun({ cron, timezone }: CronSchedule, t: number): Date | null {
  const from = new Date(t);
  if (cron.startsWith('@')) return new Cron(cron, { timezone, paused: true }).nextRun(from);
  const inYears = (years: number[], zone: { timezone: string } | { utcOffset: number }) =>
    new Cron(`0 ${cron} ${years.join(',')}`, { ...zone, paused: true }).nextRun(from);
  const year = from.getUTCFullYear();
  // In the time zone it may still be the year before, or already the one after.
  const soon = inYears([year - 1, year, year + 1], { timezone });
  if (soon) return soon;
  // A rare date, or times that the clocks skip: conversions to the time zone take long.
  const later = inYears(yearOfEachCalendar(year + 2), { utcOffset: 0 });
  return later && inYears([later.getUTCFullYear()], { timezone });
}

/** The first tick after `t`, epoch ms; for an interval: one interval later. */
export function nextAfter(schedule: Schedule, t: number): number {
  if (schedule.kind === 'interval') return t + schedule.seconds * 1000;
  const next = nextRun(schedule, t);
  // parseSchedule refuses crons that never tick; one that has ended since then is postponed by a year.
  return next?.getTime() ?? t + MAX_INTERVAL_SECONDS * 1000;
}

/** The first scheduled tick after both `due` and `now`: missed ticks are not repeated. */
export function nextTick(schedule: Schedule, due: number, now: number): number {
  if (schedule.kind === 'cron') return nextAfter(schedule, Math.max(due, now));
  const step = schedule.seconds * 1000;
  return due + step * (Math.floor(Math.max(0, now - due) / step) + 1);
}
