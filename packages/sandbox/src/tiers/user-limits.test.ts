import { expect, test } from '@jest/globals';
import { type Log, silentLog } from '@wellspring/core/log';
import type { TierName } from './tier.ts';
import { logSharedLimits } from './user-limits.ts';

function logged(tier: TierName, uid: number): object[] {
  const lines: object[] = [];
  const log: Log = { ...silentLog, info: (fields, event) => void lines.push({ ...fields, event }) };
  logSharedLimits(tier, log, uid);
  return lines;
}

test('sandboxes that share the limits of the platform’s user are told at the start, with the limits', () => {
  expect(logged('bubblewrap', 1000)).toEqual([
    {
      event: 'sandbox.shares_user_limits',
      uid: 1000,
      epollWatches: expect.any(Number),
      processes: expect.any(Number),
    },
  ]);
  // They have users of their own.
  expect(logged('bubblewrap', 0)).toEqual([]);
  expect(logged('launcher', 1000)).toEqual([]);
});
