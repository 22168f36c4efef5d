import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { createRecorder, openSandbox, type TestSandbox, TIERS, values } from './sandbox.fixture.ts';

describe.each(TIERS)('queued calls in tier %s', (tier) => {
  let sandbox: TestSandbox;
  beforeAll(async () => {
    sandbox = await openSandbox(tier);
  });
  afterAll(async () => {
    await sandbox[Symbol.asyncDispose]();
  });

  const numbered = `export default { name: 'x', async run(event) {
    if (event.die) process.exit(1);
    await new Promise((resolve) => setTimeout(resolve, event.n % 2));
    this.$emit(event.n);
  } }`;
  const call = (process: string, n: number, event: object = {}) =>
    sandbox.runModule(numbered, { process, event: { n, ...event } });

  test('are executed in order', async () => {
    await call('ahead/1', 0);
    const order: unknown[] = [];
    await Promise.all(
      Array.from({ length: 20 }, async (_, n) => {
        order.push(...values(await call('ahead/1', n)));
      }),
    );
    expect(order).toEqual(Array.from({ length: 20 }, (_, n) => n));
  });

  test('behind a call that kills its process are executed once and in order', async () => {
    await call('ahead/2', 0);
    const order: unknown[] = [];
    const results = await Promise.all(
      Array.from({ length: 20 }, async (_, n) => {
        const outcome = await call('ahead/2', n, { die: n % 7 === 3 });
        order.push(...values(outcome));
        return outcome.ok;
      }),
    );
    const dead = (n: number) => n % 7 === 3;
    expect(results).toEqual(Array.from({ length: 20 }, (_, n) => !dead(n)));
    expect(order).toEqual(Array.from({ length: 20 }, (_, n) => n).filter((n) => !dead(n)));
  });

  test('that end in one turn of the event loop have their own errors and output', async () => {
    const code = `export default { name: 'x', run(event) {
      this.$emit(event.n);
      if (event.n === 5) Promise.reject(new Error('lost'));
    } }`;
    const process = 'ahead/4';
    await sandbox.runModule(code, { process, event: { n: -1 } });
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, n) => sandbox.runModule(code, { process, event: { n } })),
    );
    expect(outcomes.map(values)).toEqual(Array.from({ length: 20 }, (_, n) => [n]));
    expect(outcomes.map(({ faults }) => faults.length)).toEqual(
      Array.from({ length: 20 }, (_, n) => +(n === 5)),
    );
  });

  test('end although the code has replaced the global Promise', async () => {
    const code = `export default { name: 'x', run(event) {
      globalThis.Promise = class { then() {} };
      this.$emit(event.n);
    } }`;
    const calls = [1, 2, 3].map((n) => sandbox.runModule(code, { process: 'ahead/5', event: { n } }));
    expect((await Promise.all(calls)).map(values)).toEqual([[1], [2], [3]]);
  });

  test('are not affected by aborting a later call', async () => {
    const code = `export default { name: 'x', run: (event) => new Promise((resolve) => setTimeout(resolve, event.ms)) }`;
    await sandbox.runModule(code, { process: 'ahead/3', event: { ms: 0 } });
    const abort = new AbortController();
    const first = sandbox.runModule(code, { process: 'ahead/3', event: { ms: 100 } });
    const second = sandbox.runModule(code, {
      process: 'ahead/3',
      event: { ms: 9000 },
      signal: abort.signal,
    });
    await eventually(() => sandbox.executor.stats().busy === 1);
    abort.abort();
    expect(await first).toMatchObject({ ok: true });
    expect(await second).toMatchObject({ ok: false, reason: 'aborted' });
  });

  test('end immediately when their source is deleted', async () => {
    const code = `export default { name: 'x', run: () => new Promise(() => {}) }`;
    const calls = [1, 2, 3].map(() => sandbox.runModule(code, { process: 'deleted/1' }));
    await eventually(() => sandbox.executor.stats().busy === 1);
    sandbox.executor.retire('deleted/', { atOnce: true });
    for (const call of calls) expect(await call).toMatchObject({ ok: false, reason: 'aborted' });
  });

  test('of a source that is deleted while its process starts leave no process', async () => {
    await using own = await openSandbox(tier);
    const { executor } = own;
    const run = (processKey: string) =>
      executor.execute(
        {
          processKey,
          bundleId: 'starting',
          readBundle: async () => ({
            format: 'esm',
            code: `export default { name: 'x' }`,
            packages: {},
            lockfile: null,
          }),
          call: { kind: 'define' },
        },
        createRecorder(),
        { timeoutMs: 10_000 },
      );
    const deleted = run('starting/1');
    executor.retire('starting/', { atOnce: true });
    expect(await deleted).toMatchObject({ ok: false, reason: 'aborted' });
    // Its process was requested earlier, and has started by then.
    expect(await run('later/1')).toMatchObject({ ok: true });
    await eventually(() => executor.stats().idle === 1);
  });
});
