import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { systemClock } from '@wellspring/core/clock';
import { silentLog } from '@wellspring/core/log';
import { tempDir } from '@wellspring/testing/temp-dir';
import { chooseJail, STRONGEST_JAILS } from './jail.fixture.ts';
import { openPackager } from './open-packager.ts';

test.each(STRONGEST_JAILS)(
  'an owner that compiles much large code does not delay others, in jail %s',
  async (jail) => {
    await using directory = await tempDir();
    chmodSync(directory.path, 0o711);
    const [dataDir, shared] = [join(directory.path, 'data'), join(directory.path, 'shared')];
    mkdirSync(dataDir);
    mkdirSync(shared);
    chmodSync(shared, 0o711);
    const { packager, close } = await openPackager({
      dataDir,
      shared,
      jail: chooseJail(jail, join(dataDir, 'cache')),
      user: process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : undefined,
      packageEnvironment: {},
      clock: systemClock,
      log: silentLog,
    });
    try {
      const large = `export default { list: [${'{ a: [1, "b"], c: (x) => x * 2 },'.repeat(40_000)}] }`;
      expect(large.length).toBeGreaterThan(1_200_000);
      const order: string[] = [];
      const compile = (ownerId: string, code: string) =>
        packager.bundle({ code }, { ownerId }).then(() => void order.push(ownerId));
      const attacks = Array.from({ length: 6 }, (_, n) => compile('attacker', `${large}\n// ${n}`));
      await compile('other', 'export default { name: "x" }');
      // The attacker has at most half of the permits, so at most two compilations were ahead.
      expect(order.filter((owner) => owner === 'attacker').length).toBeLessThanOrEqual(2);
      await Promise.all(attacks);
      expect(order).toHaveLength(7);
    } finally {
      await close();
    }
  },
  120_000,
);
