import { expect, test } from '@jest/globals';
import { createKnownRuns } from './known-runs.ts';

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

test('committed runs are forgotten after minutes, also when the clock was set back; then the store is asked about them', () => {
  const before = 100 * HOUR_MS;
  const known = createKnownRuns(before);
  known.add('before', before);
  const after = before - HOUR_MS;
  known.add('first', after);
  known.add('later', after + 2 * MINUTE_MS);
  expect(['before', 'first', 'later'].map(known.has)).toEqual([false, false, true]);
  // Runs up to this time are looked up.
  expect(known.since).toBe(before);
});
