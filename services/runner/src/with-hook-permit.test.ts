import { expect, test } from '@jest/globals';
import { createFairPermits } from '@wellspring/core/fair-permits';
import { OWNER } from '@wellspring/testing/rows';
import { withHookPermit } from './with-hook-permit.ts';

test('work that waits for the share of its owner is not started once its caller has given up', async () => {
  const hooks = createFairPermits({ total: 1 });
  const [waiting, settled] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const deps = {
    permits: { hooks },
    costs: {
      settled: () => {
        waiting.resolve();
        return settled.promise;
      },
    },
  };
  let started = 0;
  const work = async () => {
    started += 1;
  };
  const caller = new AbortController();
  const given = withHookPermit(deps, OWNER, caller.signal, work);
  await waiting.promise;
  caller.abort(new Error('given up'));
  settled.resolve();
  await expect(given).rejects.toThrow('given up');
  expect(started).toBe(0);

  // Its permit is free again.
  await withHookPermit(deps, OWNER, new AbortController().signal, work);
  expect(started).toBe(1);
});
