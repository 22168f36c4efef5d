import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { maxMinShare } from './max-min-share.ts';

test('the share divides the whole amount, and only demands above it get less than they ask for', () => {
  fc.assert(
    fc.property(fc.nat({ max: 1000 }), fc.array(fc.nat({ max: 300 })), (total, demands) => {
      const share = maxMinShare(total, demands);
      const asked = demands.reduce((sum, one) => sum + one, 0);
      const given = demands.reduce((sum, one) => sum + Math.min(one, share), 0);
      expect(given).toBeCloseTo(Math.min(total, asked));
      expect(share === Number.POSITIVE_INFINITY).toBe(asked <= total);
    }),
  );
});
