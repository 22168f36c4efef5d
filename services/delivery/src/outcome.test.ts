import { describe, expect, test } from '@jest/globals';
import { RETRY_TABLE } from '@wellspring/core/retry-delay';
import { attemptsOf } from '@wellspring/store/collections/webhooks';
import { deliveryRow } from '@wellspring/testing/rows';
import fc from 'fast-check';
import { ENDED, MAX_LOGGED_ATTEMPTS, outcomeOf, type Reply } from './outcome.ts';

const NOW = 1_700_000_000_000;
const ROW = deliveryRow({ due_at: NOW });
const replied = (status: number | null, more: Partial<Reply> = {}): Reply => ({
  status,
  error: null,
  durationMs: 12.3,
  ...more,
});

describe('the outcome of an attempt', () => {
  test.each([200, 201, 204, 299])('%i delivers', (status) => {
    const { verdict, fields } = outcomeOf({ ...ROW, attempts: 2 }, replied(status), NOW - 12, NOW, 0.5);
    expect(verdict).toBe('delivered');
    expect(fields).toMatchObject({ status: 'delivered', attempts: 3, due_at: null, failed_at_ms: null });
    expect(attemptsOf(fields)).toEqual([{ n: 3, at: NOW - 12, duration_ms: 12, status, error: null }]);
  });

  test.each([100, 199, 300, 301, 304, 400, 404, 429, 500, 503, null])('%p is retried', (status) => {
    const { verdict, fields } = outcomeOf(ROW, replied(status), NOW, NOW, 0.5);
    expect([verdict, fields.status, fields.due_at]).toEqual(['retry', 'pending', NOW + 5000]);
  });

  test('410 fails at once', () => {
    const { verdict, fields } = outcomeOf(ROW, replied(410), NOW, NOW, 0.5);
    expect(verdict).toBe('gone');
    expect(fields).toMatchObject({ status: 'failed', attempts: 1, due_at: null, failed_at_ms: NOW });
  });

  test('a receiver that never answers gets ten attempts over about three days', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0, max: 0.999, noNaN: true }), { minLength: 10, maxLength: 10 }),
        (random) => {
          let row = ROW;
          let now = NOW;
          let attempts = 0;
          for (; row.status === 'pending'; attempts++) {
            const { fields } = outcomeOf(row, replied(null), now, now, random[attempts]!);
            if (fields.due_at !== null) {
              const planned = RETRY_TABLE[attempts + 1]!;
              const wait = fields.due_at - now;
              expect(wait).toBeGreaterThanOrEqual(planned * 0.8);
              expect(wait).toBeLessThanOrEqual(planned * 1.2);
              now = fields.due_at;
            }
            row = { ...row, ...fields };
          }
          expect(attempts).toBe(10);
          expect(row.failed_at_ms).toBe(now);
          expect(now - NOW).toBeGreaterThan(2 * 24 * 3_600_000);
        },
      ),
    );
  });

  test('the first five attempts that the platform ended do not count, and are repeated soon', () => {
    let row = { ...ROW, attempts: 1 };
    const seen: unknown[] = [];
    for (let n = 0; n < 6; n += 1) {
      const { verdict, fields } = outcomeOf(row, replied(null, { error: ENDED }), NOW, NOW, 0.5);
      row = { ...row, ...fields };
      seen.push([verdict, fields.status, fields.attempts, fields.due_at! - NOW]);
    }
    const repeated = ['retry', 'pending', 1, 5000];
    expect(seen).toEqual([...Array(5).fill(repeated), ['retry', 'pending', 2, 300_000]]);
    expect(attemptsOf(row).map(({ n, error }) => [n, error])).toEqual(Array(6).fill([2, ENDED]));
  });

  test('Retry-After postpones the next attempt and never brings it forward', () => {
    const due = (retryAfter: string) =>
      outcomeOf(ROW, replied(503, { retryAfter }), NOW, NOW, 0.5).fields.due_at! - NOW;
    expect(due('10')).toBe(10_000);
    expect(due('1')).toBe(5_000);
    expect(due(new Date(NOW + 60_000).toUTCString())).toBe(60_000);
    expect(due('99999999')).toBe(24 * 3_600_000);
    expect(due('soon')).toBe(5_000);
  });

  test('only the newest attempts are listed', () => {
    let row = ROW;
    for (let n = 0; n < MAX_LOGGED_ATTEMPTS + 5; n++)
      row = { ...row, ...outcomeOf(row, replied(200), NOW, NOW, 0).fields };
    expect(attemptsOf(row).map(({ n }) => n)).toEqual(
      Array.from({ length: MAX_LOGGED_ATTEMPTS }, (_, i) => i + 6),
    );
  });
});
