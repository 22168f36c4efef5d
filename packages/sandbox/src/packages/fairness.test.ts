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
    // The attacker compiles large code one at a time.
    expect(order.filter((owner) => owner === 'attacker').length).toBeLessThanOrEqual(1);
    await Promise.all(attacks);
    expect(order).toHaveLength(7);
  },
  120_000,
);

test('an owner compiles large code one at a time', async () => {
  await using opened = await openTestPackager(STRONGEST_JAILS[0]!, {});
  const code = (elements: number) => `export default { list: [${'{ a: [1, "b"] },'.repeat(elements)}] }`;
  const order: number[] = [];
  const compile = (elements: number) =>
    opened.packager
      .bundle({ code: code(elements) }, { ownerId: 'u_test' })
      .then(() => void order.push(elements));
  await Promise.all([compile(300_000), compile(40_000)]);
  expect(order).toEqual([300_000, 40_000]);
}, 120_000);
