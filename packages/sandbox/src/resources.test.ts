import { readdirSync } from 'node:fs';
import os from 'node:os';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { BURN, codeProcesses, isAlive } from './processes.fixture.ts';
import { openSandbox, type TestSandbox, TIERS, values } from './sandbox.fixture.ts';

describe.each(TIERS)('the kernel figures of code in tier %s', (tier) => {
  let sandbox: TestSandbox;
  beforeAll(async () => {
    sandbox = await openSandbox(tier);
  });
  afterAll(async () => {
    await sandbox[Symbol.asyncDispose]();
  });

  test('give the processor time of a run', async () => {
    const code = `${BURN} export default { name: 'x', run(event) { burn(event.ms) } }`;
    await sandbox.runModule(code, { process: 'cpu/1', event: { ms: 0 } });
    const idle = await sandbox.runModule(code, { process: 'cpu/1', event: { ms: 0 } });
    const busy = await sandbox.runModule(code, { process: 'cpu/1', event: { ms: 300 } });
    expect(busy.cpuMs).toBeGreaterThan(250);
    expect(idle.cpuMs).toBeLessThan(busy.cpuMs / 3);
  });

  test('give the processor time of runs that report again that the process is ready', async () => {
    const code = `${BURN} import fs from 'node:fs'; export default { name: 'x', run(event) {
      burn(300);
      if (event.forge) fs.writeSync(3, Buffer.from([1, 0, 0, 0, 10]));
    } }`;
    const forged = await sandbox.runModule(code, { process: 'ready/1', event: { forge: true } });
    expect(forged.ok).toBe(true);
    expect(forged.cpuMs).toBeGreaterThan(250);
  });

  test('give the processor time of runs that forge it, and of killed runs', async () => {
    const end = Buffer.from([23, 0, 0, 0, 16, ...Buffer.from('{"ok":true,"cpuMs":0} ')]);
    const code = `${BURN} import fs from 'node:fs'; export default { name: 'x', run(event) {
      if (event.forge) { fs.writeSync(3, Buffer.from(${JSON.stringify([...end])})); burn(300); }
      if (event.spin) for (;;) {}
    } }`;
    const run = (event: object, process = 'forge/1', timeoutMs = 20_000) =>
      sandbox.runModule(code, { process, event, timeoutMs });
    await run({});
    const honest = await run({});
    const forged = await run({ forge: true });
    expect(forged.ok).toBe(true);
    // Time after a forged end is charged to the next run.
    const next = await run({});
    expect(forged.cpuMs + next.cpuMs).toBeGreaterThan(250);
    expect(honest.cpuMs).toBeLessThan((forged.cpuMs + next.cpuMs) / 3);
    const killed = await run({ spin: true }, 'spin/1', 1500);
    expect(killed).toMatchObject({ ok: false, reason: 'timeout' });
    expect(killed.cpuMs).toBeGreaterThan(honest.cpuMs * 2);
  });

  test('show that idle processes are stopped until their next run', async () => {
    const code = `let n = 0, spins = 0; export default { name: 'x', run() {
      const spin = () => { spins++; setImmediate(spin) };
      if (n === 0) spin();
      this.$emit({ n: ++n, spins });
    } }`;
    const process = 'spin/1';
    expect(values(await sandbox.runModule(code, { process }))).toEqual([{ n: 1, spins: 1 }]);
    await eventually(() => {
      const processes = codeProcesses();
      expect(processes.length).toBeGreaterThanOrEqual(2);
      expect(processes.filter(({ state }) => state !== 'T')).toEqual([]);
    });
    const before = codeProcesses();
    const [second] = values(await sandbox.runModule(code, { process })) as { n: number; spins: number }[];
    // The code continued before it was stopped, and continues now.
    expect(second).toMatchObject({ n: 2 });
    expect(second!.spins).toBeGreaterThan(1);
    expect(before.length).toBeGreaterThan(0);
    await eventually(() => expect(codeProcesses().filter(({ state }) => state !== 'T')).toEqual([]));
    // Stopped processes can be killed.
    sandbox.executor.retire('spin/');
    await eventually(() => expect(before.filter(({ pid }) => !isAlive(pid))).toHaveLength(1));
  });

  test('show that user code has a lower priority than the platform', async () => {
    await sandbox.run('return 1', { process: 'nice/1' });
    await eventually(() => {
      const priorities = codeProcesses().flatMap(({ pid }) =>
        readdirSync(`/proc/${pid}/task`).map((thread) => os.getPriority(Number(thread))),
      );
      expect(priorities.length).toBeGreaterThan(1);
      expect(Math.min(...priorities)).toBeGreaterThan(os.getPriority());
    });
  });

  const MAKE = `import fs from 'node:fs'; import os from 'node:os'; export default { name: 'x', run(event) {
    for (let n = 0; n < event.count; n++) fs.mkdirSync(os.tmpdir() + '/' + n);
    this.$emit(fs.readdirSync(os.tmpdir()).length);
  } }`;

  test('end a run that creates very many files, but not one that creates few', async () => {
    expect(values(await sandbox.runModule(MAKE, { event: { count: 1000 } }))).toEqual([1000]);
    expect(await sandbox.runModule(MAKE, { event: { count: 3_000_000 } })).toMatchObject({
      ok: false,
      reason: 'limit',
      error: { message: expect.stringContaining('temporary directory') },
    });
  });

  test('end a process that has left very many files after its run', async () => {
    const { idle } = sandbox.executor.stats();
    await sandbox.runModule(MAKE, { event: { count: 6000 }, process: 'files/1' });
    await eventually(() => expect(sandbox.executor.stats().idle).toBe(idle));
    expect(values(await sandbox.runModule(MAKE, { event: { count: 5 }, process: 'files/1' }))).toEqual([5]);
  });

  test('limit the bytes of the temporary directory', async () => {
    const outcome = await sandbox.run(`const file = os.tmpdir() + '/x'; const block = Buffer.alloc(1e6, 1);
      for (let n = 0; n < 3000; n++) { fs.appendFileSync(file, block); await new Promise(setImmediate); }
      return 'all'`);
    expect(outcome.ok).toBe(false);
    expect(outcome.emits).toEqual([]);
  });
});

test('a process that continues after its run is not stopped without freezing (positive control)', async () => {
  const sandbox = await openSandbox('none', { freezeAfterMs: Number.POSITIVE_INFINITY });
  try {
    await sandbox.run('const spin = () => setImmediate(spin); spin()', { process: 'spin/1' });
    const ticks = () => Math.max(...codeProcesses().map((one) => one.ticks));
    const before = ticks();
    await eventually(() => expect(ticks()).toBeGreaterThan(before + 20));
  } finally {
    await sandbox[Symbol.asyncDispose]();
  }
});

test('idle processes are ended, least recently used first, before they exceed the memory limit', async () => {
  const sandbox = await openSandbox('none', { memoryBytes: 200 * 1024 * 1024 });
  try {
    const code = `let n = 0; const held = Buffer.alloc(40e6, 1); export default { name: 'x', run() { this.$emit(++n) } }`;
    for (let n = 0; n < 8; n++)
      expect(values(await sandbox.runModule(code, { process: `s${n}/1` }))).toEqual([1]);
    await eventually(() => expect(sandbox.executor.stats().idle).toBeLessThanOrEqual(4));
    expect(values(await sandbox.runModule(code, { process: 's7/1' }))).toEqual([2]);
    expect(values(await sandbox.runModule(code, { process: 's0/1' }))).toEqual([1]);
  } finally {
    await sandbox[Symbol.asyncDispose]();
  }
});

test('some of the sources that are called in turn find their process, though not all fit into the memory', async () => {
  await using sandbox = await openSandbox('none', { memoryBytes: 200 * 1024 * 1024 });
  const code = `let n = 0; const held = Buffer.alloc(40e6, 1); export default { name: 'x', run() { this.$emit(++n) } }`;
  let found = 0;
  // The memory of a process varies, so that a round may keep none.
  for (let round = 1; round < 6 && found === 0; round++) {
    for (let n = 0; n < 8; n++) {
      const [count] = values(await sandbox.runModule(code, { process: `s${n}/1` }));
      // Those of the second round have been called at one gap.
      if (round > 2 && count !== 1) found += 1;
    }
  }
  expect(found).toBeGreaterThan(0);
});

test('idle processes of an owner with many sources are ended before an older one of another owner', async () => {
  const sandbox = await openSandbox('none', { memoryBytes: 200 * 1024 * 1024 });
  try {
    const code = `let n = 0; const held = Buffer.alloc(40e6, 1); export default { name: 'x', run() { this.$emit(++n) } }`;
    const run = async (owner: string, process: string) =>
      values(await sandbox.runModule(code, { process, owner: { id: owner, allowNetworks: [] } }));
    expect(await run('u_few', 'few/1')).toEqual([1]);
    for (let n = 0; n < 8; n++) expect(await run('u_many', `many${n}/1`)).toEqual([1]);
    await eventually(() => expect(sandbox.executor.stats().idle).toBeLessThanOrEqual(4));
    expect(await run('u_few', 'few/1')).toEqual([2]);
    expect(await run('u_many', 'many7/1')).toEqual([2]);
    expect(await run('u_many', 'many0/1')).toEqual([1]);
  } finally {
    await sandbox[Symbol.asyncDispose]();
  }
});
