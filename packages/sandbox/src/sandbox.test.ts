import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { LIMITS } from '@wellspring/contract/limits';
import { eventually } from '@wellspring/testing/eventually';
import { openSandbox, type TestSandbox, TIERS, values } from './sandbox.fixture.ts';

describe.each(TIERS)('code in tier %s', (tier) => {
  let sandbox: TestSandbox;
  beforeAll(async () => {
    sandbox = await openSandbox(tier);
  });
  afterAll(async () => {
    await sandbox[Symbol.asyncDispose]();
  });
  const run: TestSandbox['run'] = (body, options) => sandbox.run(body, options);

  test('runs, and its actions reach the host in order', async () => {
    const outcome = await sandbox.runModule(
      `export default { name: 'x', props: { db: '$.service.db' }, async run(event) {
        console.log('got', event.n); this.$emit({ n: event.n }, { id: 7, name: 'c' }); console.warn('done');
      } }`,
      { event: { n: 1 } },
    );
    expect(outcome).toMatchObject({ ok: true, faults: [] });
    expect(outcome.emits).toMatchObject([{ payload: '{"n":1}', id: 7, name: 'c' }]);
    expect(outcome.logs).toMatchObject([
      { level: 'info', msg: 'got 1' },
      { level: 'warn', msg: 'done' },
    ]);
    expect(outcome.durationMs).toBeGreaterThan(0);
  });

  test('that writes to the console by any method gets its lines in this order', async () => {
    const outcome = await sandbox.runModule(
      `export default { name: 'x', run() {
        console.log(1); console.dir({ a: { b: { c: { d: 2 } } } }, { depth: 0 }); console.log(3); console.table([4]);
        console.log(5);
      } }`,
    );
    expect(outcome.logs.map(({ msg }) => msg)).toEqual([
      '1',
      '{ a: [Object] }',
      '3',
      expect.stringContaining('4'),
      '5',
    ]);
  });

  test('that throws reports the error with the author’s line numbers', async () => {
    const outcome = await sandbox.runModule(`export default { name: 'x',
      run() {
        throw new TypeError('no');
      } }`);
    expect(outcome).toMatchObject({
      ok: false,
      reason: 'thrown',
      error: { name: 'TypeError', message: 'no' },
    });
    if (outcome.ok) throw new Error('The run did not fail.');
    expect(outcome.error.stack).toContain('/app/component.js:3');
    expect(outcome.error.stack).not.toMatch(/wellspring-|child\.mjs/);
  });

  test('that cannot be loaded, or is not a component, fails with reason load', async () => {
    expect(await sandbox.runModule(`throw new Error('at the top')`)).toMatchObject({
      reason: 'load',
      error: { message: 'at the top' },
    });
    expect(await sandbox.runModule(`export default 7`)).toMatchObject({ reason: 'load' });
  });

  test('keeps its process and memory between runs; another key has another process', async () => {
    const code = `let n = 0; export default { name: 'x', run() { this.$emit(++n) } }`;
    const counts = [];
    for (const process of ['a/1', 'a/1', 'b/1', 'a/1'])
      counts.push(...values(await sandbox.runModule(code, { process })));
    expect(counts).toEqual([1, 2, 1, 3]);
    sandbox.executor.retire('a/');
    expect(values(await sandbox.runModule(code, { process: 'a/1' }))).toEqual([1]);
  });

  test('has an environment that reveals nothing about the host', async () => {
    const [env] = values(await run('return process.env')) as Record<string, string>[];
    expect(Object.keys(env!).sort()).toEqual([
      'HOME',
      'NODE_ENV',
      'PATH',
      'PD_COMPONENT',
      'PWD',
      'TMPDIR',
      'TZ',
    ]);
    expect(env!.PD_COMPONENT).toBe('dc_test');
  });

  test('can write only to its temporary directory, which no other code sees', async () => {
    const write = `fs.writeFileSync(os.tmpdir() + '/left', 'x'); return fs.readdirSync(os.tmpdir())`;
    expect(values(await run(write))).toEqual([['left']]);
    expect(values(await run(write))).toEqual([['left']]);
    const elsewhere = `const done = [];
      for (const path of ['/x', '/etc/x', '/dev/shm/x', process.cwd() + '/x', new URL(import.meta.url).pathname])
        try { fs.writeFileSync(path, 'x'); done.push(path) } catch {}
      return done`;
    expect(values(await run(elsewhere))).toEqual([[]]);
  });

  test('reads no file of the host', async () => {
    const outcome = await run(
      `const read = [];
       for (const path of event) try { fs.statSync(path); fs.readFileSync(path); read.push(path) } catch {}
       return read`,
      {
        event: [
          '/etc/shadow',
          '/root/.bashrc',
          '/proc/1/environ',
          '/proc/self/environ',
          '/etc/hostname',
          '/usr/bin/env',
          `${sandbox.dataDir}/bundles`,
          import.meta.filename,
        ],
      },
    );
    expect(values(outcome)).toEqual([[]]);
  });

  test('can neither start processes or listeners nor send signals', async () => {
    const outcome = await run(`const { spawnSync } = await import('node:child_process');
      const done = [];
      const attempt = (name, act) => { try { if (act() !== false) done.push(name) } catch {} };
      attempt('spawn', () => spawnSync(process.execPath, ['-e', '0']).status === 0);
      attempt('listen', () => net.createServer().listen(0));
      attempt('kill', () => process.kill(process.ppid || -1, 0));
      return done`);
    expect(values(outcome)).toEqual([[]]);
  });

  test('can read figures of memory and processors, which reveal nothing', async () => {
    const outcome = await run(
      `return [process.memoryUsage().rss > 0, os.totalmem() > 0, Array.isArray(os.cpus()), os.networkInterfaces()]`,
    );
    expect(values(outcome)).toEqual([[true, true, true, {}]]);
  });

  describe('that exceeds a limit', () => {
    const next = async () => {
      expect(values(await run('return "well"', { process: 'limits/1' }))).toEqual(['well']);
    };

    test('of time is killed, even in an endless loop', async () => {
      const outcome = await run('for (;;);', { timeoutMs: 300, process: 'limits/1' });
      expect(outcome).toMatchObject({ ok: false, reason: 'timeout', error: { name: 'TimeoutError' } });
      expect(outcome.durationMs).toBeGreaterThan(200);
      expect(outcome.durationMs).toBeLessThan(5000);
      await next();
    });

    test.each([
      ['heap', 'const a = []; for (;;) a.push(new Array(1e5).fill(Math.random()))'],
      ['buffers', 'const a = []; for (;;) { a.push(Buffer.alloc(8e6, 1)); await new Promise(setImmediate) }'],
    ])('of memory (%s) is killed', async (_name, body) => {
      expect(await run(body, { process: 'limits/1' })).toMatchObject({ ok: false, reason: 'memory' });
      await next();
    });

    test('of events is killed', async () => {
      const outcome = await sandbox.runModule(
        `export default { name: 'x', run() { for (let i = 0; i < ${LIMITS.emits + 1}; i++) this.$emit(i) } }`,
      );
      expect(outcome).toMatchObject({ ok: false, reason: 'protocol' });
      expect(outcome.emits).toHaveLength(LIMITS.emits);
    });

    test('of changes of $service.db is killed', async () => {
      const outcome = await sandbox.runModule(
        `export default { name: 'x', props: { db: '$.service.db' }, run() {
          for (let i = 0; i <= ${LIMITS.dbSets}; i++) this.db.set('n', i) } }`,
        { instance: { props: [{ name: 'db', type: '$.service.db' }] } },
      );
      expect(outcome).toMatchObject({ ok: false, reason: 'protocol', endedProcesses: 1 });
      expect(outcome.db).toEqual({ n: String(LIMITS.dbSets - 1) });
    });

    test('of total bytes is killed', async () => {
      const outcome = await sandbox.runModule(
        `export default { name: 'x', run() { for (let i = 0; i < 20; i++) this.$emit('x'.repeat(1e6)) } }`,
      );
      expect(outcome).toMatchObject({ ok: false, reason: 'protocol' });
      expect(outcome.emits).toHaveLength(Math.floor(LIMITS.runBytes / 1e6));
    });

    test('of bytes on standard output is killed', async () => {
      const outcome = await run(`const much = Buffer.alloc(60_000, 'x');
        for (;;) { try { fs.writeSync(1, much) } catch {} }`);
      expect(outcome).toMatchObject({ ok: false, reason: 'protocol' });
    });

    test('of the size of an event continues without the event', async () => {
      const outcome = await sandbox.runModule(
        `export default { name: 'x', run() { this.$emit('x'.repeat(${LIMITS.emit})); this.$emit('ok') } }`,
      );
      expect(outcome).toMatchObject({ ok: true, faults: [{ name: 'EmitError' }] });
      expect(values(outcome)).toEqual(['ok']);
    });

    test('of the depth of an event is recorded with the place of the emit', async () => {
      const outcome = await sandbox.runModule(
        `export default {\n name: 'x',\n run() {\n  const deep = []; let at = deep; for (let i = 0; i < 300; i++) at.push((at = []));\n  this.$emit(deep);\n } }`,
      );
      const stack =
        'EmitError: The event was not emitted: it is nested more than 256 levels deep.\n    at Object.run (/app/';
      expect(outcome).toMatchObject({ ok: true, faults: [{ stack: expect.stringContaining(stack) }] });
      expect(outcome.faults[0]!.stack).toMatch(/:5:8\)$/);
    });

    test('of log lines continues without further lines', async () => {
      const outcome = await run(`for (let i = 0; i < 5000; i++) console.log(i); return 1`);
      expect(outcome.ok).toBe(true);
      expect(outcome.logs).toHaveLength(2000);
      expect(outcome.logs.at(-1)).toMatchObject({ level: 'warn', msg: expect.stringContaining('dropped') });
    });

    test('of a log line is cut at the end of the line only', async () => {
      const outcome = await run(`console.log({ long: 'x'.repeat(16_000) }, 'end'); return 1`);
      expect(outcome.logs[0]!.msg).toMatch(/^\{\s+long: 'x{16000}'\s+\} end$/);
    });

    test('of log text continues without further text', async () => {
      const outcome = await run(`for (let i = 0; i < 500; i++) console.log('x'.repeat(16_000)); return 1`);
      expect(values(outcome)).toEqual([1]);
      expect(outcome.logs.length).toBeLessThan(140);
      expect(outcome.logs.at(-1)).toMatchObject({ level: 'warn', msg: expect.stringContaining('dropped') });
    });
  });

  describe('that disturbs its process', () => {
    test.each([
      ['process.exit(0)', 'process.exit(0)', 'crash'],
      ['process.abort()', 'process.abort()', 'crash'],
      ['closing its descriptor', 'fs.closeSync(3); await new Promise(() => {})', 'crash'],
      [
        'garbage on its descriptor',
        `fs.writeSync(3, Buffer.alloc(64, 'x')); await new Promise(() => {})`,
        'protocol',
      ],
      [
        'a forged frame of another kind',
        `fs.writeSync(3, Buffer.from([3, 0, 0, 0, 99, 123, 125])); await new Promise(() => {})`,
        'protocol',
      ],
    ])('by %s fails only the current call', async (_name, body, reason) => {
      expect(await run(body, { process: 'out/1', timeoutMs: 10_000 })).toMatchObject({ ok: false, reason });
      expect(values(await run('return 1', { process: 'out/1' }))).toEqual([1]);
    });

    test('by ending it keeps what it emitted and logged before', async () => {
      const outcome = await run(`this.$emit(1); console.log('bye'); await null; process.exit(0)`);
      expect(outcome).toMatchObject({ ok: false, reason: 'crash', logs: [{ msg: 'bye' }] });
      expect(values(outcome)).toEqual([1]);
    });

    test('by an unhandled rejection gets a fault, and its process is not reused', async () => {
      const code = `let n = 0; export default { name: 'x', async run(event) {
        this.$emit(++n);
        if (event.lose) { Promise.reject(new Error('lost')); await new Promise((r) => setTimeout(r, 1)); }
      } }`;
      const lost = await sandbox.runModule(code, { process: 'lost/1', event: { lose: true } });
      expect(lost).toMatchObject({ ok: true, faults: [{ message: 'lost' }], endedProcesses: 1 });
      const next = await sandbox.runModule(code, { process: 'lost/1' });
      expect(values(next)).toEqual([1]);
      expect(next).not.toHaveProperty('endedProcesses');
    });

    test.each([
      ['in a method that is not awaited', `void (async () => { await null; throw new Error('lost') })()`],
      ['in the last step', `await null; Promise.reject(new Error('lost'))`],
      ['in a microtask', `queueMicrotask(() => { throw new Error('lost') })`],
    ])('by an error %s gets a fault, though its run ends before', async (name, body) => {
      const lost = await run(body, { process: `unawaited ${name}/1` });
      expect(lost).toMatchObject({ ok: true, faults: [{ message: 'lost' }], endedProcesses: 1 });
    });

    test('by a log line after its end adds nothing to the next call', async () => {
      const outcome = await run(`setTimeout(() => console.log('late'), 0)`, { process: 'late/1' });
      expect(outcome.logs).toEqual([]);
    });

    test('by endless log lines after its end is killed', async () => {
      const code = `let n = 0; export default { name: 'x', run(event) {
        this.$emit(++n);
        if (event.flood) setInterval(() => { for (let i = 0; i < 100; i++) console.log('x'.repeat(10_000)) }, 1);
      } }`;
      await sandbox.runModule(code, { process: 'endless/1', event: { flood: true } });
      const again = async () => values(await sandbox.runModule(code, { process: 'endless/1' }))[0];
      await eventually(async () => (await again()) === 1, { every: 50 });
    });
  });
});
