import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { createLoad, type Load, seededRandom } from './crash.ts';
import { checkPipeline, deployPipeline } from './pipeline.fixture.ts';
import { platform, sink, usePlatform } from './platform.fixture.ts';

/**
 * Accepted calls survive SIGKILL at any moment: repeated kills under load on the same data. `CRASH_SEED` repeats a run,
 * `CRASHES` makes it longer.
 */

const CRASHES = Number(process.env.CRASHES ?? 20);
const SEED = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000);
/** Deliveries that a kill may repeat: eight in progress, and 56 with an unwritten outcome. */
const REPEATED = 64;

usePlatform({ env: { WELLSPRING_RETAIN_EVENTS: '1000000' } });

/** Kills the process during work, sometimes during its start. @returns the number of kills */
async function crash(load: Load, random: () => number): Promise<number> {
  await load.acceptedMore(Math.floor(random() * 150));
  // A random moment, not a wait for a condition.
  await pause(random() * 20);
  await platform.end('SIGKILL');
  let kills = 1;
  for (; random() < 0.2; kills++) {
    platform.spawn();
    await pause(random() * 1500);
    await platform.end('SIGKILL');
  }
  platform.spawn();
  await platform.ready();
  return kills;
}

test(`accepted calls are emitted once and delivered, over ${CRASHES} crashes (seed ${SEED})`, async () => {
  const random = seededRandom(SEED);
  const pipeline = await deployPipeline(platform, sink);
  const loads = [
    createLoad('p', [platform.url + pipeline.plain.path], 8),
    createLoad('c', [platform.url + pipeline.counting.path], 8),
  ] as const;
  let kills = 0;
  for (let crashes = 0; crashes < CRASHES; crashes++) {
    kills += await crash(loads[crashes % 2]!, random);
  }
  await Promise.all(loads.map((load) => load.stop()));
  const { accepted, unanswered, emitted, deliveredTwice } = await checkPipeline(
    platform,
    pipeline,
    loads,
    sink,
  );
  expect(deliveredTwice).toBeLessThanOrEqual(kills * REPEATED);
  console.info(
    `${kills} kills: ${accepted} accepted, ${unanswered} unanswered, ${emitted} emitted, ${deliveredTwice} delivered twice`,
  );
  // The crashes interrupted work.
  expect(unanswered).toBeGreaterThan(CRASHES / 2);
}, 600_000);
