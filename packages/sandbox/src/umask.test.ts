import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { openSandbox, type TestSandbox, TIERS, values } from './sandbox.fixture.ts';

describe.each(TIERS)('with the umask of the platform, code in tier %s', (tier) => {
  let sandbox: TestSandbox;
  let umask: number;
  beforeAll(async () => {
    umask = process.umask(0o077);
    sandbox = await openSandbox(tier);
  });
  afterAll(async () => {
    await sandbox[Symbol.asyncDispose]();
    process.umask(umask);
  });

  test('is loaded and executed by its own user', async () => {
    const outcome = await sandbox.run(`fs.writeFileSync(os.tmpdir() + '/x', '1');
      return [typeof process.getuid(), fs.readFileSync(os.tmpdir() + '/x', 'utf8')]`);
    expect(values(outcome)).toEqual([['number', '1']]);
  });
});
