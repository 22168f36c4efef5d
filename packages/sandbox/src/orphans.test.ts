import { expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { descendants, isAlive, usePlatforms } from './processes.fixture.ts';
import { TIERS } from './sandbox.fixture.ts';

const { directory, start } = usePlatforms();

test.each(TIERS)('no process of tier %s outlives a killed platform', async (tier) => {
  const platform = await start(tier, directory.path);
  const children = descendants(platform.pid!);
  expect(children.length).toBeGreaterThanOrEqual(2);
  platform.kill('SIGKILL');
  await eventually(() => children.every((pid) => !isAlive(pid)), { ms: 5000 });
});
