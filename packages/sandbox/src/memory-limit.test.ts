import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { compileAddon, type NativeAddon, usePageTables } from './attacks/native-addon.fixture.ts';
import { codeProcesses } from './processes.fixture.ts';
import { KERNEL_TIERS, type Outcome, openSandbox, type TestSandbox, TIERS } from './sandbox.fixture.ts';
import type { TierName } from './tiers/tier.ts';

const MB = 1024 * 1024;

/** Takes memory, and keeps it until the run is aborted. */
const HOLD = `export default { name: 'x', async run({ mb }) {
  if (mb === 0) return;
  const held = Buffer.alloc(mb * ${MB}, 1);
  await new Promise((resolve) => setTimeout(resolve, 60_000));
  this.$emit(held.length);
} };`;

/** Runs of owners, which end when they are aborted. */
function runsIn(sandbox: TestSandbox) {
  const aborting = new AbortController();
  const ended: Outcome[] = [];
  return {
    ended,
    abort: () => aborting.abort(),
    async run(owner: string, process: string, mb: number): Promise<Outcome> {
      const outcome = await sandbox.runModule(HOLD, {
        process,
        owner: { id: owner, allowNetworks: [] },
        event: { mb },
        timeoutMs: 60_000,
        signal: aborting.signal,
      });
      ended.push(outcome);
      return outcome;
    },
  };
}

const reasonOf = (outcome: Outcome) => (outcome.ok ? 'ok' : outcome.reason);

describe.each(TIERS)('when the memory for user code in tier %s is short', (tier) => {
  test('runs of the owner that uses the most end, and those of others go on', async () => {
    await using sandbox = await openSandbox(tier, { memoryBytes: 360 * MB, pool: 0 });
    const { run, ended, abort } = runsIn(sandbox);
    const greedy = ['a', 'b', 'c'];
    // Processes that have started wait for nothing.
    await run('u_small', 'small/1', 0);
    for (const name of greedy) await run('u_greedy', `${name}/1`, 0);
    ended.length = 0;
    const small = run('u_small', 'small/1', 60);
    const runs = greedy.map((name) => run('u_greedy', `${name}/1`, 140));
    await eventually(() => expect(ended).toHaveLength(2));
    for (const outcome of ended) {
      expect(outcome).toMatchObject({
        ok: false,
        reason: 'memory',
        error: { name: 'MemoryError', message: expect.stringContaining('WELLSPRING_MEMORY_MB') },
      });
    }
    abort();
    expect(reasonOf(await small)).toBe('aborted');
    expect((await Promise.all(runs)).map(reasonOf).sort()).toEqual(['aborted', 'memory', 'memory']);
  }, 120_000);

  test('processes of an owner that has many wait, and those of others start', async () => {
    await using sandbox = await openSandbox(tier, { memoryBytes: 120 * MB, pool: 0 });
    const { run, abort } = runsIn(sandbox);
    const many = Array.from({ length: 8 }, (_, n) => run('u_many', `many${n}/1`, 1));
    await eventually(() => expect(sandbox.executor.stats().busy).toBeGreaterThanOrEqual(3));
    for (let n = 0; n < 5; n++) expect(reasonOf(await run('u_other', `other${n}/1`, 0))).toBe('ok');
    expect(sandbox.executor.stats().busy).toBeLessThan(7);
    abort();
    // All of them have started after the others.
    expect((await Promise.all(many)).map(reasonOf)).toEqual(many.map(() => 'aborted'));
  }, 120_000);
});

describe('the memory of idle processes', () => {
  let addon: NativeAddon;
  beforeAll(() => {
    addon = compileAddon();
  });
  afterAll(() => addon.remove());

  /** Shows that processes whose code takes 40 MB in this way are too many for 200 MB, and that others are not. */
  async function fill(tier: TierName, { body, event }: { body: string; event: object }): Promise<void> {
    await using sandbox = await openSandbox(tier, { memoryBytes: 200 * MB, pool: 0 });
    const { executor } = sandbox;
    const runAll = async (given: object) => {
      for (let n = 0; n < 6; n++) {
        const outcome = await sandbox.run(`if (!event.isFull) return; ${body}`, {
          process: `s${n}/1`,
          event: given,
        });
        expect(outcome).toMatchObject({ ok: true });
      }
    };
    await runAll({});
    await eventually(() => expect(codeProcesses().map(({ state }) => state)).toEqual(Array(6).fill('T')));
    expect(executor.stats().idle).toBe(6);
    await runAll({ ...event, isFull: true });
    await eventually(() => expect(executor.stats().idle).toBeLessThan(5));
  }

  test.each(KERNEL_TIERS)(
    'includes page tables in tier %s',
    async (tier) => {
      await fill(tier, addon.calling(usePageTables(10)));
    },
    120_000,
  );

  const withTmpfs = KERNEL_TIERS.includes('bubblewrap') ? test : test.skip;
  withTmpfs(
    'includes the temporary directory in tier bubblewrap, also files without a name',
    async () => {
      const body = `const block = Buffer.alloc(${MB}, 1);
      for (let n = 0; n < 40; n++) {
        const path = os.tmpdir() + '/' + n; const file = fs.openSync(path, 'w'); fs.writeSync(file, block);
        if (n < 20) fs.unlinkSync(path); else fs.closeSync(file);
      }`;
      await fill('bubblewrap', { body, event: {} });
    },
    120_000,
  );
});
