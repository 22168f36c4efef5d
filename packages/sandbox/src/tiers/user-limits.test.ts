import { expect, test } from '@jest/globals';
import { type Log, silentLog } from '@wellspring/core/log';
import type { TierName } from './tier.ts';
import { warnOfSharedLimits } from './user-limits.ts';

function warningsOf(tier: TierName, uid: number): object[] {
  const warnings: object[] = [];
  const log: Log = { ...silentLog, warn: (fields, event) => void warnings.push({ ...fields, event }) };
  warnOfSharedLimits(tier, log, uid);
  return warnings;
}

test('sandboxes that share the limits of the platform’s user are told at the start, with the limits', () => {
  expect(warningsOf('bubblewrap', 1000)).toEqual([
    {
      event: 'sandbox.shares_user_limits',
      uid: 1000,
      epollWatches: expect.any(Number),
      inotifyInstances: expect.any(Number),
      processes: expect.any(Number),
    },
  ]);
  // They have users of their own.
  expect(warningsOf('bubblewrap', 0)).toEqual([]);
  expect(warningsOf('launcher', 1000)).toEqual([]);
});
