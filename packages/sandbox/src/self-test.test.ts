import { afterEach, expect, test } from '@jest/globals';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import { openSandbox, TIERS } from './sandbox.kit.ts';

let dir: TempDir | undefined;
afterEach(async () => {
  await dir?.remove();
  dir = undefined;
});

test.each(TIERS)(
  '%s: networks that the operator allowed to code are no fault, also on kept data',
  async (tier) => {
    dir = await tempDir();
    for (const codeAllowNetworks of [[], ['127.0.0.0/8'], ['10.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16']]) {
      await using sandbox = await openSandbox(tier, { dataDir: dir.path, codeAllowNetworks });
      expect(sandbox.executor.tier).toBe(tier);
    }
  },
);
