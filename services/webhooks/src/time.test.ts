import { describe, expect, test } from '@jest/globals';
import { parseTime } from './time.ts';

describe('a point in time', () => {
  test.each([
    ['2023-11-14T22:13:20.000Z', 1_700_000_000_000],
    ['2023-11-14T22:13:20Z', 1_700_000_000_000],
    ['2023-11-14T22:13:20', 1_700_000_000_000],
    ['2023-11-15T00:13:20+02:00', 1_700_000_000_000],
    ['2023-11-14T22:13', 1_699_999_980_000],
    ['2023-11-14', 1_699_920_000_000],
    ['1700000000', 1_700_000_000_000],
    ['1700000000.5', 1_700_000_000_500],
    ['0', 0],
  ])('%s', (text, ms) => {
    expect(parseTime('since', text)).toBe(ms);
  });

  test.each([
    '',
    'some day',
    'yesterday',
    '2023-13-40',
    '2026-02-31',
    '2023-02-29T10:00Z',
    '14 Nov 2023',
    '-1',
    '1e9',
    'NaN',
    '170000000000000',
  ])('%j is rejected', (text) => {
    expect(() => parseTime('since', text)).toThrow(expect.objectContaining({ status: 400, param: 'since' }));
  });
});
