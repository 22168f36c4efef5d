import { afterEach, expect, jest, test } from '@jest/globals';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import { openSandbox, TIERS } from './sandbox.fixture.ts';
import { selfTest } from './self-test.ts';

// Each start tests the isolation anew.
jest.setTimeout(120_000);

let dir: TempDir | undefined;
afterEach(async () => {
  await dir?.remove();
  dir = undefined;
});

test.each(TIERS)('%s: allowed networks do not fail the self-test, also with cached bundles', async (tier) => {
  dir = await tempDir();
  for (const codeAllowNetworks of [[], ['127.0.0.0/8'], ['10.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16']]) {
    await using sandbox = await openSandbox(tier, { dataDir: dir.path, codeAllowNetworks });
    expect(sandbox.executor.tier).toBe(tier);
  }
});

test.each(TIERS)('%s: a platform whose process ids also exist in the sandbox passes', async (tier) => {
  dir = await tempDir();
  await using sandbox = await openSandbox(tier, { dataDir: dir.path });
  // As process 1 of a container, below an init process, and as a child of the init process of the machine.
  const platforms =
    tier === 'bubblewrap'
      ? [
          [1, 0],
          [7, 1],
          [process.pid, 1],
        ]
      : [[process.pid, 0]];
  for (const pids of platforms)
    expect(await selfTest(sandbox.executor, ['127.0.0.0/8'], pids)).toBeUndefined();
});
