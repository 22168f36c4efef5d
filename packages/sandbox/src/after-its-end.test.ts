import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { openSandbox, type TestSandbox, TIERS, values } from './sandbox.fixture.ts';

describe.each(TIERS)('code in tier %s', (tier) => {
  let sandbox: TestSandbox;
  beforeAll(async () => {
    // Freezing is off, since a frozen process sends nothing.
    sandbox = await openSandbox(tier, { freezeAfterMs: Number.POSITIVE_INFINITY });
  });
  afterAll(async () => {
    await sandbox[Symbol.asyncDispose]();
  });

  test.each([
    ['that it is ready', [1, 0, 0, 0, 10]],
    ['events', [4, 0, 0, 0, 11, 0, 0, 0]],
    ['ends', [3, 0, 0, 0, 16, 123, 125]],
  ])('that sends endless %s after its run is killed', async (name, frame) => {
    const process = `flood ${name}/1`;
    const code = `import fs from 'node:fs'; let n = 0; export default { name: 'x', run(event) {
      this.$emit(++n);
      const much = Buffer.concat(Array(5000).fill(Buffer.from(${JSON.stringify(frame)})));
      if (event.flood) setTimeout(() => { for (;;) try { fs.writeSync(3, much) } catch {} }, 1);
    } }`;
    const flood = await sandbox.runModule(code, { process, event: { flood: true } });
    expect(values(flood)).toEqual([1]);
    const { idle } = sandbox.executor.stats();
    await eventually(() => expect(sandbox.executor.stats().idle).toBe(idle - 1));
    expect(values(await sandbox.runModule(code, { process }))).toEqual([1]);
  });

  test.each([
    ['rejects a promise', "throw new Error('late')"],
    ['throws in a timer', "setTimeout(() => { throw new Error('late') })"],
  ])('that %s after the end of its run does not make the next run fail', async (what, fault) => {
    const process = `late ${what}/1`;
    const code = `let open; const gate = new Promise((resolve) => { open = resolve }); export default { name: 'x',
      async run(event) {
        if (event.first) { gate.then(() => { ${fault} }); return }
        open();
        for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setTimeout(resolve, 1));
        this.$emit('second');
      } }`;
    const first = await sandbox.runModule(code, { process, event: { first: true } });
    expect([first.ok, first.faults]).toEqual([true, []]);
    const second = await sandbox.runModule(code, { process });
    expect([second.ok, second.faults, values(second)]).toEqual([true, [], ['second']]);
    const msg = expect.stringMatching(/^An earlier run failed after its end: Error: late\n/);
    expect(second.logs).toMatchObject([{ level: 'error', msg }]);
  });

  test('that allocates endless memory after its run is killed', async () => {
    const process = 'hoard/1';
    const code = `const kept = []; let n = 0; export default { name: 'x', run(event) {
      this.$emit(++n);
      const hoard = () => { kept.push(Buffer.alloc(4e6, 1)); setTimeout(hoard, 5); };
      if (event.hoard) setTimeout(hoard, 1);
    } }`;
    expect(values(await sandbox.runModule(code, { process, event: { hoard: true } }))).toEqual([1]);
    const { idle } = sandbox.executor.stats();
    await eventually(() => expect(sandbox.executor.stats().idle).toBe(idle - 1));
    expect(values(await sandbox.runModule(code, { process }))).toEqual([1]);
  });
});
