import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import type { IdleUsage } from './port.ts';
import { BURN, codeProcesses } from './processes.fixture.ts';
import { createRecorder, openSandbox, type TestSandbox, TIERS } from './sandbox.fixture.ts';

const END = Buffer.from('{"ok":true}');
const END_FRAME = JSON.stringify([END.length + 1, 0, 0, 0, 16, ...END]);

const CODE = `${BURN} import fs from 'node:fs'; export default { name: 'x', run(event) {
  if (event.forge) fs.writeSync(3, Buffer.from(${END_FRAME}));
  burn(event.ms);
  if (event.exit) process.exit(0);
  if (event.later) setTimeout(() => process.exit(burn(event.later)));
  if (event.forge) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
} };`;

describe.each(TIERS)('an owner in tier %s', (tier) => {
  let sandbox: TestSandbox;
  /** That of its test: a process of another one may be charged late. */
  let owner = { id: '', allowNetworks: [] };
  let tests = 0;
  let charged: IdleUsage[] = [];
  beforeAll(async () => {
    // Freezing is off, so that code uses a measurable time between calls.
    sandbox = await openSandbox(tier, { freezeAfterMs: Number.POSITIVE_INFINITY });
    sandbox.executor.onIdleUsage((ownerId, usage) => {
      if (ownerId === owner.id) charged.push(usage);
    });
  });
  beforeEach(() => {
    charged = [];
    owner = { id: `u_burner${tests++}`, allowNetworks: [] };
  });
  afterAll(async () => {
    await sandbox[Symbol.asyncDispose]();
  });
  const run = (process: string, event: object) => sandbox.runModule(CODE, { process, owner, event });

  test('is charged for a process that continues after its end and then exits', async () => {
    const forged = await run('exit/1', { forge: true, ms: 3_000, exit: true });
    expect(forged).toMatchObject({ ok: true });
    await eventually(() => expect(charged).toHaveLength(1), { ms: 20_000 });
    expect(charged).toEqual([{ cpuMs: expect.any(Number), endedProcesses: 1 }]);
    // The run is charged for what is used until its end has been read, nobody for what follows the last sample.
    expect(forged.cpuMs + charged[0]!.cpuMs).toBeGreaterThan(600);
  }, 60_000);

  test('is charged for a process that continues after its end until the platform ends it', async () => {
    const forged = await run('retired/1', { forge: true, ms: 60_000 });
    expect(forged).toMatchObject({ ok: true });
    // Counted from its end, since the start of a process takes a time that depends on the machine and is not charged.
    const ticksAtEnd = new Map(codeProcesses().map(({ pid, ticks }) => [pid, ticks]));
    await eventually(() => {
      const used = codeProcesses().map(({ pid, ticks }) => ticks - (ticksAtEnd.get(pid) ?? ticks));
      expect(Math.max(...used)).toBeGreaterThan(100);
    });
    sandbox.executor.retire('retired/');
    await eventually(() => expect(charged).toHaveLength(1));
    expect(charged).toEqual([{ cpuMs: expect.any(Number), endedProcesses: 0 }]);
    expect(charged[0]!.cpuMs).toBeGreaterThan(500);
  });

  test('is charged for a run whose source is deleted meanwhile', async () => {
    const code = `${BURN} export default { name: 'x', run() { burn(300); console.log(1); return new Promise(() => {}) } }`;
    const { id: bundleId, bundle } = await sandbox.packager.bundle({ code }, { ownerId: owner.id });
    const burnt = Promise.withResolvers<void>();
    const result = sandbox.executor.execute(
      {
        ...{ processKey: 'deleted/1', owner, bundleId, readBundle: async () => bundle },
        instance: { source_id: 'dc_test', props: [], values: {}, endpoints: {}, db: {}, dbRevision: 0 },
        call: { kind: 'run', trigger: { kind: 'value', json: '{}' }, emitTrigger: false },
      },
      { ...createRecorder(), log: () => burnt.resolve() },
      { timeoutMs: 20_000 },
    );
    await burnt.promise;
    sandbox.executor.retire('deleted/', { atOnce: true });
    expect(await result).toMatchObject({ ok: false, reason: 'aborted' });
    expect((await result).cpuMs).toBeGreaterThan(250);
  });

  test('is not charged again for what its runs contain', async () => {
    await run('killed/1', { ms: 3_000, exit: true });
    const honest = await run('honest/1', { ms: 3_000, later: 3_000 });
    await eventually(() => expect(charged.map((usage) => usage.endedProcesses)).toContain(1), {
      ms: 20_000,
    });
    const cpuMs = charged.reduce((sum, usage) => sum + usage.cpuMs, 0);
    expect(cpuMs).toBeLessThan(3_200);
    // The run is charged for what is used until its end has been read.
    expect(honest.cpuMs + cpuMs).toBeGreaterThan(3_600);
  }, 90_000);
});
