import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { forSuite } from '@wellspring/testing/lifetimes';
import { openSandbox, TIERS, values } from './sandbox.fixture.ts';

describe.each(TIERS)('with the umask of the platform, code in tier %s', (tier) => {
  let umask: number;
  beforeAll(() => {
    umask = process.umask(0o077);
  });
  const sandbox = forSuite(() => openSandbox(tier));
  afterAll(() => void process.umask(umask));

  test('is loaded and executed by its own user', async () => {
    const outcome = await sandbox.run(`fs.writeFileSync(os.tmpdir() + '/x', '1');
      return [typeof process.getuid(), fs.readFileSync(os.tmpdir() + '/x', 'utf8')]`);
    expect(values(outcome)).toEqual([['number', '1']]);
  });
});
