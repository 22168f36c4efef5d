import { expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import { usage } from '@wellspring/store/collections/users';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { OWNER } from '@wellspring/testing/rows';
import { openPorts } from '@wellspring/testing/service-harness';
import { createUsageMeter } from './usage.ts';

/** Two meters, of two processes, on a store that can fail. */
function createBed() {
  const clock = createFakeClock(Date.UTC(2030, 0, 1, 23, 59, 59));
  const { store, log, close } = openPorts({ clock });
  const rows = store.collection(usage);
  const { replace } = rows;
  const bed = {
    clock,
    close,
    fault: undefined as 'no write' | 'no answer' | undefined,
    meters: [createUsageMeter({ store, clock, log }), createUsageMeter({ store, clock, log })] as const,
    /** `[day, invocations, compute_ms]` of all rows. */
    async stored() {
      const all = await rows.list({ order: 'asc' });
      return all.map(({ day, invocations, compute_ms }) => [day, invocations, compute_ms]);
    },
  };
  rows.replace = async (...given) => {
    if (bed.fault === 'no write') throw new Unavailable('the store is down');
    const replaced = await replace(...given);
    if (bed.fault === 'no answer') throw new Unavailable('the answer was lost');
    return replaced;
  };
  return bed;
}

test('runs count for the day on which they ran, also when the store was down over midnight', async () => {
  const bed = createBed();
  const [meter] = bed.meters;
  bed.fault = 'no write';
  meter.countRun(OWNER, 110);
  await meter.flush();
  await bed.clock.advance(2000);
  // A run counts at least 100 ms.
  meter.countRun(OWNER, 5);
  await meter.flush();
  bed.fault = undefined;
  await meter.flush();
  expect(await bed.stored()).toEqual([
    ['2030-01-01', 1, 110],
    ['2030-01-02', 1, 100],
  ]);
  await bed.close();
});

test('a write whose answer was lost counts once, between those of other processes and later ones', async () => {
  const bed = createBed();
  const [meter, other] = bed.meters;
  other.countRun(OWNER, 100);
  await other.flush();
  for (const fault of ['no answer', 'no write', 'no answer', undefined] as const) {
    bed.fault = fault;
    meter.countRun(OWNER, 110);
    await meter.flush();
  }
  other.countRun(OWNER, 100);
  await Promise.all([meter.flush(), other.flush()]);
  expect(await bed.stored()).toEqual([['2030-01-01', 6, 640]]);
  await bed.close();
});
