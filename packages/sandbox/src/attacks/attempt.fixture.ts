import { expect, test } from '@jest/globals';
import { type Outcome, type RunOptions, type TestSandbox, values } from '../sandbox.fixture.ts';
import type { TierName } from '../tiers/tier.ts';
import { ATTACKS } from './rows.ts';

/** @returns a function that declares the test of a row, which is skipped if the row does not contain the tier */
export const attackRow = (tier: TierName) => (id: string, act: () => Promise<void>, timeout?: number) => {
  const { attempt, tiers } = ATTACKS.find((row) => row.id === id)!;
  (tiers.includes(tier) ? test : test.skip)(`row ${id}: ${attempt}`, act, timeout);
};

/** Runs an attack in one call of a source, and checks that its calls before and after that succeed. */
export async function attackOnce(
  sandbox: TestSandbox,
  body: string,
  options: RunOptions & { process: string },
): Promise<Outcome> {
  const code = `if (!event.attack) return 'works'; ${body}`;
  const works = async () =>
    expect(values(await sandbox.run(code, { process: options.process }))).toEqual(['works']);
  await works();
  const outcome = await sandbox.run(code, { ...options, event: { attack: true } });
  await works();
  return outcome;
}
