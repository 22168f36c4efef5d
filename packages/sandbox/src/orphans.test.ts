import type { ChildProcess } from 'node:child_process';
import { afterEach, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import { descendants, isAlive, startPlatform } from './processes.fixture.ts';
import { TIERS } from './sandbox.fixture.ts';

let platform: ChildProcess | undefined;
let directory: TempDir | undefined;
afterEach(async () => {
  platform?.kill('SIGKILL');
  await directory?.remove();
});

test.each(TIERS)('no process of tier %s outlives a killed platform', async (tier) => {
  directory = await tempDir();
  platform = await startPlatform(tier, directory.path);
  const children = descendants(platform.pid!);
  expect(children.length).toBeGreaterThanOrEqual(2);
  platform.kill('SIGKILL');
  await eventually(() => children.every((pid) => !isAlive(pid)), { ms: 5000 });
});
