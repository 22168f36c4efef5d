import { expect, test } from '@jest/globals';
import { usage } from '@wellspring/store/collections/users';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { OWNER } from '@wellspring/testing/rows';
import { openPorts } from '@wellspring/testing/service-harness';
import { createUsageMeter } from './usage.ts';

test('runs count for the day on which they ran, also when the store was down over midnight', async () => {
  const clock = createFakeClock(Date.UTC(2030, 0, 1, 23, 59, 59));
  const { store, log, close } = openPorts({ clock });
  const rows = store.collection(usage);
  const { increment } = rows;
  let isDown = true;
  const failing = {
    ...store,
    collection: () => ({
      ...rows,
      increment: async (...given: Parameters<typeof increment>) => {
        if (isDown) throw new Error('the store is down');
        return increment.apply(rows, given);
      },
    }),
  } as unknown as typeof store;
  const meter = createUsageMeter({ store: failing, clock, log });
  meter.countRun(OWNER, 10);
  await meter.flush();
  await clock.advance(2000);
  meter.countRun(OWNER, 5);
  await meter.flush();
  isDown = false;
  await meter.flush();
  expect(await rows.list({ order: 'asc' })).toEqual([
    { id: `${OWNER}/2030-01-01`, day: '2030-01-01', invocations: 1, compute_ms: 10 },
    { id: `${OWNER}/2030-01-02`, day: '2030-01-02', invocations: 1, compute_ms: 5 },
  ]);
  await close();
});
