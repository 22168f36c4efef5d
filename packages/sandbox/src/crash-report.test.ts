import { describe, expect, test } from '@jest/globals';
import { forSuite } from '@wellspring/testing/lifetimes';
import { openSandbox, TIERS } from './sandbox.fixture.ts';

describe.each(TIERS)('in tier %s', (tier) => {
  const sandbox = forSuite(() => openSandbox(tier));

  test('memory that is used up is told in one sentence, without the report of the engine', async () => {
    const outcome = await sandbox.runModule(
      `export default { name: 'x', async run() { console.log('begun'); await new Promise(setImmediate); const list = []; for (;;) list.push({ at: list.length, more: [1, 2, 3] }); } }`,
      { timeoutMs: 60_000 },
    );
    expect(outcome).toMatchObject({
      ok: false,
      reason: 'memory',
      error: { name: 'MemoryError', message: 'Out of memory: the limit is 256 MB.' },
    });
    expect(outcome.logs.map(({ msg }) => msg)).toEqual(['begun']);
  }, 90_000);

  test('an error keeps its cause, and a refused address names the setting', async () => {
    const outcome = await sandbox.runModule(
      `export default { name: 'x', async run() { await fetch('http://10.0.0.1:8000/'); } }`,
    );
    if (outcome.ok) throw new Error('The address was reached');
    expect(outcome.error.message).toBe('fetch failed');
    expect(outcome.error.cause).toMatch(/connect EACCES 10\.0\.0\.1:8000.*WELLSPRING_CODE_ALLOW_NETWORKS/s);
    expect(outcome.error.cause).toContain("code: 'EACCES'");
  });

  test('frames of the platform are in no cause and no line of the console', async () => {
    const outcome = await sandbox.runModule(
      `export default { name: 'x', async run() {
        const error = Object.assign(new Error('own'), { code: 'OWN' });
        console.error(error, 'after');
        console.log({ error });
        try { await fetch('http://10.0.0.1:8000/') } catch (refused) { console.warn(refused) }
        throw new Error('no', { cause: new Error('refused', { cause: error }) });
      } }`,
    );
    if (outcome.ok) throw new Error('The run did not fail.');
    const [first, nested, refused] = outcome.logs.map(({ msg }) => msg);
    expect(first).toMatch(
      /^Error: own\n {4}at \S*run \(\S+component\.js:2:37\) \{\n {2}code: 'OWN'\n\} after$/,
    );
    expect(nested).toMatch(
      /error: Error: own\n +at \S*run \(\S+component\.js:2:37\) \{\n {4}code: 'OWN'\n {2}\}\n\}$/,
    );
    expect(refused).toMatch(/connect EACCES 10\.0\.0\.1:8000.*code: 'EACCES'/s);
    expect(outcome.error.cause).toMatch(
      /^Error: refused\n.*\{\n {2}\[cause\]: Error: own\n.*\{\n {4}code: 'OWN'\n {2}\}\n\}$/s,
    );
    const recorded = JSON.stringify([outcome.logs, outcome.error]);
    expect(recorded).not.toMatch(/child\.mjs|network\.cjs/);
  });
});
