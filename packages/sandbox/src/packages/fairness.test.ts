import { expect, test } from '@jest/globals';
import { STRONGEST_JAILS } from './jail.fixture.ts';
import { openTestPackager } from './packager.fixture.ts';

test.each(STRONGEST_JAILS)(
  'an owner that compiles much large code does not delay others, in jail %s',
  async (jail) => {
    await using opened = await openTestPackager(jail, {});
    const large = `export default { list: [${'{ a: [1, "b"], c: (x) => x * 2 },'.repeat(40_000)}] }`;
    expect(large.length).toBeGreaterThan(1_200_000);
    const order: string[] = [];
    const compile = (ownerId: string, code: string) =>
      opened.packager.bundle({ code }, { ownerId }).then(() => void order.push(ownerId));
    const attacks = Array.from({ length: 6 }, (_, n) => compile('attacker', `${large}\n// ${n}`));
    await compile('other', 'export default { name: "x" }');
    // The attacker has at most half of the permits, so at most two compilations were ahead.
    expect(order.filter((owner) => owner === 'attacker').length).toBeLessThanOrEqual(2);
    await Promise.all(attacks);
    expect(order).toHaveLength(7);
  },
  120_000,
);
