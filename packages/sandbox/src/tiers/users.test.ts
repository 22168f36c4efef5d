import { copyFile, link, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { descendants, isSandboxed, uidsOf, usePlatforms } from '../processes.fixture.ts';
import { isEnterable } from '../readable-files.ts';
import { TIERS } from '../sandbox.fixture.ts';

const { directory, start } = usePlatforms();

test.each(['bubblewrap', 'launcher'] as const)('this machine supports %s', (tier) => {
  expect(TIERS).toContain(tier);
});

test.each(TIERS)(
  'a platform in a directory that only root may enter runs code in tier %s, never as root',
  async (tier) => {
    const node = join(directory.path, 'root', 'node');
    await mkdir(join(directory.path, 'root'), { mode: 0o700 });
    await link(process.execPath, node).catch(() => copyFile(process.execPath, node));
    expect(isEnterable(join(directory.path, 'root'))).toBe(false);
    const platform = await start(tier, join(directory.path, 'data'), { node });
    expect(uidsOf(platform.pid!)).toEqual([0, 0, 0, 0]);
    await eventually(() => {
      const sandboxed = descendants(platform.pid!).filter(isSandboxed);
      // The running process and those of the pool: each has a different user.
      expect(sandboxed.length).toBeGreaterThanOrEqual(3);
      const users = sandboxed.map((pid) => new Set(uidsOf(pid)));
      for (const ids of users) expect([...ids]).toEqual([expect.any(Number)]);
      const ids = users.flatMap((one) => [...one]);
      expect(Math.min(...ids)).toBeGreaterThan(60_000);
      expect(new Set(ids).size).toBe(ids.length);
    });
  },
);
