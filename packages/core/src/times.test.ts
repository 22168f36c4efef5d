import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { eventIdOfSortKey, eventSortKey, formatEventId, nextEventId, parseEventId } from './event-id.ts';
import { parseRetryAfter, RETRY_TABLE, retryDelay } from './retry-delay.ts';
import { nextAfter, nextTick, parseSchedule } from './schedule.ts';

const at = (iso: string) => Date.parse(iso);
const parse = (value: unknown) => parseSchedule(value, 'configured_props.timer', 15);

describe('schedule', () => {
  test('is read from either spelling of an interval, and from what the API returns', () => {
    const interval = { kind: 'interval', seconds: 900 };
    expect(parse({ intervalSeconds: 900 })).toEqual(interval);
    expect(parse({ cron: null, interval_seconds: 900 })).toEqual(interval);
    expect(parse({ cron: '0 9 * * 1-5', interval_seconds: null })).toEqual({
      kind: 'cron',
      cron: '0 9 * * 1-5',
      timezone: 'UTC',
    });
  });

  test.each(['@hourly', '@daily', '@midnight', '@weekly', '@monthly', '@yearly', '@annually'])(
    'knows %s',
    (cron) => {
      expect(nextAfter(parse({ cron }), at('2026-03-04T05:06:07Z'))).toBeGreaterThan(0);
    },
  );

  test.each([
    null,
    'x',
    [],
    {},
    { intervalSeconds: 14 },
    { intervalSeconds: 15.5 },
    { intervalSeconds: -60 },
    { intervalSeconds: 1e12 },
    { intervalSeconds: true },
    { cron: '' },
    { cron: 5 },
    { cron: '* * * * * *' },
    { cron: '* * * *' },
    { cron: `${Array(200).fill('1-59').join(',')} * * * *` },
    { cron: '60 * * * *' },
    { cron: '0 0 31 2 *' },
    { cron: '@reboot' },
    { cron: '@every' },
    { cron: '0 0 * * *', timezone: 'Mars/Olympus' },
    { cron: '0 0 * * *', timezone: 1 },
  ])('%j is a 400 that names the prop', (value) => {
    expect(() => parse(value)).toThrow(
      expect.objectContaining({ status: 400, param: 'configured_props.timer' }),
    );
  });

  test.each([
    '0 0 1-7 * +0L,1L,2L,3L,4L,5L,6L',
    '0 0 L * +FRI',
    '0 0 LW * +1',
    '0 0 15W * +1',
    '0 0 29 2 +1#5',
  ])('the cron %s is refused: + with L, W or # takes long to search', (cron) => {
    const message = 'configured_props.timer has a cron expression that combines + with L, W or #.';
    expect(() => parse({ cron })).toThrow(message);
  });

  test.each([
    ['0 0 29 2 *', '2096-03-01T00:00:00Z', '2104-02-29T00:00:00Z'],
    ['0 0 29 2 +MON', '2026-11-29T00:00:00Z', '2044-02-29T00:00:00Z'],
    ['0 0 29 2 +MON', '2072-03-01T00:00:00Z', '2112-02-29T00:00:00Z'],
    ['0 0 1-7 JUL +MON', '2026-11-29T00:00:00Z', '2027-07-05T00:00:00Z'],
    ['0 0 LW * *', '2026-12-31T23:59:00Z', '2027-01-29T00:00:00Z'],
  ])('the cron %s comes due after %s on %s', (cron, from, next) => {
    expect(nextAfter(parse({ cron }), at(from))).toBe(at(next));
  });

  test.each([
    ['0 0 * 13 *', 'Invalid value for month: 13'],
    ['0 0 * 0 *', 'Invalid value for month: 0'],
    ['0 0 32 * *', 'Invalid value for day: 32'],
    ['0 0 32W * *', 'Invalid value for day: 32'],
    ['0 24 * * *', 'Invalid value for hour: 24'],
    ['60 0 * * *', 'Invalid value for minute: 60'],
    ['0 0 * * 8', 'Invalid value for dayOfWeek: 8'],
  ])('the error of the cron %s has the value as it was given', (cron, why) => {
    const message = `configured_props.timer has an invalid cron expression: ${why}`;
    expect(() => parse({ cron })).toThrow(expect.objectContaining({ message }));
  });

  test('a cron whose times the clocks always skip never comes due', () => {
    const skipped = { cron: '15,45 2 * 3 SUNL', timezone: 'Europe/Berlin' };
    expect(() => parse(skipped)).toThrow('never comes due');
  });

  test('a cron follows its time zone over a change of its clocks', () => {
    const daily = parse({ cron: '30 9 * * *', timezone: 'Europe/Berlin' });
    expect(nextAfter(daily, at('2026-03-28T00:00:00Z'))).toBe(at('2026-03-28T08:30:00Z'));
    expect(nextAfter(daily, at('2026-03-28T09:00:00Z'))).toBe(at('2026-03-29T07:30:00Z'));
  });

  test.each([
    ['30 2 * * *', ['2027-03-28T01:00:00Z'], ['2027-10-31T00:30:00Z']],
    [
      '15,45 2 * * *',
      [],
      ['2027-10-31T00:15:00Z', '2027-10-31T00:45:00Z', '2027-10-31T01:15:00Z', '2027-10-31T01:45:00Z'],
    ],
  ])('the cron %s runs on the days when the clocks change at %j and %j', (cron, spring, autumn) => {
    const schedule = parse({ cron, timezone: 'Europe/Berlin' });
    const ticks = (from: string, to: string) => {
      const list: number[] = [];
      for (let t = nextAfter(schedule, at(from)); t < at(to); t = nextAfter(schedule, t)) list.push(t);
      return list;
    };
    expect(ticks('2027-03-27T12:00:00Z', '2027-03-28T12:00:00Z')).toEqual(spring.map(at));
    expect(ticks('2027-10-30T12:00:00Z', '2027-10-31T12:00:00Z')).toEqual(autumn.map(at));
  });

  test('the next tick of a cron lies strictly later, on a full minute', () => {
    const times = fc.integer({ min: at('2024-01-01T00:00:00Z'), max: at('2034-01-01T00:00:00Z') });
    const minutely = parse({ cron: '* * * * *' });
    fc.assert(
      fc.property(times, (t) => {
        expect(nextAfter(minutely, t)).toBe((Math.floor(t / 60_000) + 1) * 60_000);
      }),
    );
  });

  test('missed ticks are not repeated: the next one is later than now and on schedule', () => {
    const seconds = fc.integer({ min: 15, max: 100_000 });
    fc.assert(
      fc.property(seconds, fc.nat(), fc.integer({ min: -60_000, max: 10 ** 9 }), (interval, due, late) => {
        const next = nextTick({ kind: 'interval', seconds: interval }, due, due + late);
        expect(next).toBeGreaterThan(Math.max(due, due + late));
        expect(next - Math.max(due, due + late)).toBeLessThanOrEqual(interval * 1000);
        expect((next - due) % (interval * 1000)).toBe(0);
      }),
    );
    const hourly = parse({ cron: '@hourly' });
    expect(nextTick(hourly, at('2026-01-01T01:00:00Z'), at('2026-01-01T07:30:00Z'))).toBe(
      at('2026-01-01T08:00:00Z'),
    );
  });
});

describe('retry delay', () => {
  test('is the table, spread by 20 % to both sides, and ends with it', () => {
    expect(RETRY_TABLE.map((ms) => ms / 1000)).toEqual([
      0, 5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400,
    ]);
    fc.assert(
      fc.property(fc.nat({ max: 9 }), fc.double({ min: 0, max: 0.999, noNaN: true }), (tries, random) => {
        const delay = retryDelay(tries, random)!;
        expect(delay).toBeGreaterThanOrEqual(Math.floor(RETRY_TABLE[tries]! * 0.8));
        expect(delay).toBeLessThanOrEqual(Math.ceil(RETRY_TABLE[tries]! * 1.2));
      }),
    );
    expect(retryDelay(10, 0.5)).toBeUndefined();
    expect(retryDelay(10, 0.5, 1000)).toBeUndefined();
  });

  test('is never shorter than Retry-After, which counts up to 24 h', () => {
    expect(retryDelay(1, 0.5, 60_000)).toBe(60_000);
    expect(retryDelay(2, 0.5, 1000)).toBe(300_000);
    expect(retryDelay(1, 0.5, 10 ** 12)).toBe(24 * 3_600_000);
  });

  test('Retry-After is parsed as seconds or as a date; malformed values give undefined', () => {
    const now = at('2026-11-21T06:00:00Z');
    expect(parseRetryAfter(' 120 ', now)).toBe(120_000);
    expect(parseRetryAfter('Sat, 21 Nov 2026 06:00:30 GMT', now)).toBe(30_000);
    expect(parseRetryAfter('Sat, 21 Nov 2020 06:00:30 GMT', now)).toBe(0);
    expect(parseRetryAfter('9'.repeat(400), now)).toBe(24 * 3_600_000);
    for (const text of [undefined, '', 'soon', '-5', '1.5']) {
      expect(parseRetryAfter(text, now)).toBeUndefined();
    }
  });
});

describe('event id', () => {
  test('ascends for any clock, and its sort key does, too', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 50 }), { minLength: 1 }), (nows) => {
        let last: ReturnType<typeof nextEventId> | undefined;
        const keys = nows.map((now) => {
          last = nextEventId(last, now);
          return eventSortKey(last);
        });
        expect([...new Set(keys)].sort()).toEqual(keys);
      }),
    );
  });

  test('round-trips as text and sort key', () => {
    fc.assert(
      fc.property(fc.nat(), fc.nat({ max: 10 ** 6 }), (ms, n) => {
        expect(parseEventId(formatEventId({ ms, n }))).toEqual({ ms, n });
        expect(eventIdOfSortKey(eventSortKey({ ms, n }))).toBe(`${ms}-${n}`);
      }),
    );
    for (const text of ['', '1', '1-', '-1', '1-x', ' 1-1', '1-1-1'])
      expect(parseEventId(text)).toBeUndefined();
  });
});
