import { writeFileSync } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { openSandbox, type TestSandbox, TIERS, values } from '../sandbox.kit.ts';
import { ATTACKS } from './rows.ts';

const REFUSED = /^(E[A-Z]+|ERR_[A-Z_]+)$/;

describe.each(TIERS)('code in tier %s', (tier) => {
  let sandbox: TestSandbox;
  let secret: string;
  beforeAll(async () => {
    sandbox = await openSandbox(tier);
    // Everybody may read it, if they can name it.
    secret = join(sandbox.dataDir, 'canary');
    writeFileSync(secret, 'a secret of the host', { mode: 0o644 });
  });
  afterAll(async () => {
    await sandbox[Symbol.asyncDispose]();
  });

  const has = (id: string) => ATTACKS.some((row) => row.id === id && row.tiers.includes(tier));
  const row = (id: string, act: () => Promise<void>, timeout?: number) =>
    (has(id) ? test : test.skip)(`row ${id}: ${ATTACKS.find((one) => one.id === id)!.attempt}`, act, timeout);

  /** Tries each expression; gives what came of it: an error code, or `done`. */
  async function tryEach(attempts: Record<string, string>): Promise<Record<string, string>> {
    const cases = Object.entries(attempts).map(([name, code]) => `[${JSON.stringify(name)}, () => ${code}]`);
    const outcome =
      await sandbox.run(`const { spawnSync, fork, execSync } = await import('node:child_process');
      const said = {};
      for (const [name, act] of [${cases.join(',')}])
        try { const got = await act(); said[name] = got?.error?.code ?? 'done'; } catch (error) { said[name] = error.code ?? String(error); }
      return said`);
    expect(outcome).toMatchObject({ ok: true });
    return values(outcome)[0] as Record<string, string>;
  }

  const allRefused = async (attempts: Record<string, string>) => {
    for (const [name, result] of Object.entries(await tryEach(attempts)))
      expect(`${name}: ${result}`).toMatch(new RegExp(`^${name}: ${REFUSED.source.slice(1)}`));
  };

  row('1', async () => {
    // Outside they can be read.
    expect((await readFile('/proc/self/environ')).length).toBeGreaterThan(0);
    await allRefused({
      'process 1': `fs.readFileSync('/proc/1/environ')`,
      itself: `fs.readFileSync('/proc/self/environ')`,
      platform: `fs.readFileSync('/proc/${process.pid}/cmdline')`,
    });
    const [names] = values(await sandbox.run('return Object.keys(process.env).sort()'));
    expect(names).toEqual(['HOME', 'NODE_ENV', 'PATH', 'PD_COMPONENT', 'PWD', 'TMPDIR', 'TZ']);
  });

  row('2', async () => {
    expect(await readFile(secret, 'utf8')).toContain('secret');
    expect((await readdir('/root')).length).toBeGreaterThanOrEqual(0);
    await allRefused({
      secret: `fs.readFileSync(${JSON.stringify(secret)})`,
      'the data directory': `fs.readdirSync(${JSON.stringify(sandbox.dataDir)})`,
      shadow: `fs.readFileSync('/etc/shadow')`,
      root: `fs.readdirSync('/root')`,
      sandboxes: `fs.readdirSync('/tmp/..' + '/tmp/wellspring')`,
      Docker: `fs.statSync('/var/run/docker.sock')`,
    });
  });

  row('3', async () => {
    expect((await stat('/usr/bin')).isDirectory()).toBe(true);
    await allRefused({
      stat: `fs.statSync('/usr/bin')`,
      above: `fs.statSync('../../../../usr/bin')`,
      link: `(fs.symlinkSync('/usr/bin', os.tmpdir() + '/link'), fs.statSync(os.tmpdir() + '/link'))`,
      secret: `fs.statSync(${JSON.stringify(secret)})`,
    });
  });

  row('4', async () => {
    await allRefused({
      code: `fs.writeFileSync(new URL(import.meta.url).pathname, '')`,
      beside: `fs.writeFileSync(process.env.HOME + '/x', '')`,
      node: `fs.openSync(process.execPath, 'r+')`,
      program: `fs.openSync(process.argv[1], 'r+')`,
      socket: `fs.writeFileSync('/run/eg/x', '')`,
      permissions: `fs.chmodSync(process.env.HOME, 0o777)`,
    });
  });

  row('5', async () => {
    await allRefused({
      spawn: `spawnSync(process.execPath, ['-e', '0'])`,
      shell: `spawnSync('/bin/sh', ['-c', 'true'])`,
      fork: `new Promise((resolve, reject) => fork('x').on('error', reject).on('spawn', resolve))`,
      cluster: `import('node:cluster').then((c) => new Promise((resolve, reject) => c.default.fork().on('error', reject).on('online', resolve)))`,
    });
  });

  row('6', async () => {
    const outcome = await sandbox.run(
      `process.execve(process.execPath, [process.execPath, '-e', 'require("fs").writeSync(1, String(require("fs").existsSync("/usr/bin")))'], {})`,
      { process: 'row6/1', timeoutMs: 10_000 },
    );
    expect(outcome).toMatchObject({ ok: false });
    expect(outcome.logs.map(({ msg }) => msg).join()).not.toContain('true');
    expect(values(await sandbox.run('return 1', { process: 'row6/1' }))).toEqual([1]);
  });

  row(
    '18',
    async () => {
      const endless = [
        'for (;;);',
        `/^(a+)+$/.test('a'.repeat(60) + 'b')`,
        'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)',
        'await new Promise(() => {})',
      ];
      for (const body of endless) {
        const options = { process: 'row18/1', timeoutMs: 500 };
        expect(await sandbox.run(body, options)).toMatchObject({ ok: false, reason: 'timeout' });
      }
      expect(values(await sandbox.run('return 1', { process: 'row18/1' }))).toEqual([1]);
    },
    60_000,
  );

  row(
    '19',
    async () => {
      const before = process.memoryUsage().rss;
      const bombs = [
        'const a = []; for (;;) a.push(new Array(1e5).fill(Math.random()))',
        'const a = []; for (;;) { a.push(new SharedArrayBuffer(16e6)); new Uint8Array(a.at(-1)).fill(1); await new Promise(setImmediate) }',
        'const a = []; for (;;) { a.push(new WebAssembly.Memory({ initial: 256 })); new Uint8Array(a.at(-1).buffer).fill(1); await new Promise(setImmediate) }',
        `let s = 'x'; const a = []; for (;;) { a.push(Buffer.from(s = s.length > 1e7 ? 'x' : s + s + a.length)); await new Promise(setImmediate) }`,
      ];
      for (const body of bombs) {
        const outcome = await sandbox.run(body, { process: 'row19/1', timeoutMs: 30_000 });
        expect(outcome).toMatchObject({ ok: false });
        expect(['memory', 'thrown']).toContain(outcome.ok ? '' : outcome.reason);
      }
      expect(process.memoryUsage().rss - before).toBeLessThan(300e6);
      expect(values(await sandbox.run('return 1', { process: 'row19/1' }))).toEqual([1]);
    },
    120_000,
  );

  row('20', async () => {
    const files = await sandbox.run(`const open = []; let failure;
      try { for (;;) open.push(fs.openSync(import.meta.filename)) } catch ({ code }) { failure = code }
      for (const fd of open) fs.closeSync(fd);
      return [failure, open.length < 256]`);
    expect(values(files)).toEqual([['EMFILE', true]]);
    const threads = await sandbox.run(
      `const { Worker } = await import('node:worker_threads');
       let failed = 0; const workers = [];
       for (let i = 0; i < 60; i++) try { workers.push(new Worker('setInterval(() => {}, 1000)', { eval: true }).on('error', () => { failed++ })) } catch { failed++ }
       await new Promise((resolve) => setTimeout(resolve, 1500));
       return failed > 0`,
      { timeoutMs: 20_000 },
    );
    if (threads.ok) expect(values(threads)).toEqual([true]);
    else expect(['limit', 'crash']).toContain(threads.reason);
  });

  row('26', async () => {
    const ends = [
      'process.exit(0)',
      'process.abort()',
      'fs.closeSync(3); await new Promise(() => {})',
      'for (const fd of [0, 1, 2, 3]) try { fs.closeSync(fd) } catch {} ; await new Promise(() => {})',
      `setTimeout(() => { throw new Error('uncaught') }, 0); await new Promise((resolve) => setTimeout(resolve, 50)); process.exit(1)`,
    ];
    for (const body of ends) {
      expect(await sandbox.run(body, { process: 'row26/1', timeoutMs: 8000 })).toMatchObject({ ok: false });
      expect(values(await sandbox.run('return 1', { process: 'row26/1' }))).toEqual([1]);
    }
  });

  row('27', async () => {
    const body = `const found = [globalThis.left, ...fs.readdirSync(os.tmpdir())].filter(Boolean);
      globalThis.left = 'x'; fs.writeFileSync(os.tmpdir() + '/left', 'x'); return found`;
    expect(values(await sandbox.run(body, { process: 'a/27' }))).toEqual([[]]);
    // The control: the same process finds it.
    expect(values(await sandbox.run(body, { process: 'a/27' }))).toEqual([['x', 'left']]);
    expect(values(await sandbox.run(body, { process: 'b/27' }))).toEqual([[]]);
  });

  row('30', async () => {
    const outcome = await sandbox.run(`const inspector = await import('node:inspector');
      const said = [];
      try { inspector.open(0, '127.0.0.1'); said.push(inspector.url()) } catch ({ code }) { said.push(code) }
      try { process.kill(process.pid, 'SIGUSR1') } catch {}
      await new Promise((resolve) => setTimeout(resolve, 100));
      said.push(inspector.url());
      return said.filter((one) => String(one).startsWith('ws:'))`);
    if (outcome.ok) expect(values(outcome)).toEqual([[]]);
  });
});
