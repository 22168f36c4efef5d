import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, chmodSync, constants, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { descendants } from '../processes.fixture.ts';
import { isEnterable } from '../readable-files.ts';
import {
  type Outcome,
  openSandbox,
  type RunOptions,
  type TestSandbox,
  TIERS,
  values,
} from '../sandbox.fixture.ts';
import { CHILD_LIMITS } from '../tiers/tier.ts';
import { liveSlot, pidOfTitle, portsListenedTo } from './host-view.fixture.ts';
import { ATTACKS } from './rows.ts';

const REFUSED = /^(E[A-Z]+|ERR_[A-Z_]+)$/;

describe.each(TIERS)('code in tier %s', (tier) => {
  let sandbox: TestSandbox;
  let secret: string;
  beforeAll(async () => {
    sandbox = await openSandbox(tier);
    // Every user may read it: only the sandbox keeps it from the code.
    chmodSync(sandbox.dataDir, 0o755);
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
  async function tryEach(
    attempts: Record<string, string>,
    options: RunOptions = {},
  ): Promise<Record<string, string>> {
    const cases = Object.entries(attempts).map(([name, code]) => `[${JSON.stringify(name)}, () => ${code}]`);
    const outcome = await sandbox.run(
      `const { spawnSync, fork, execSync } = await import('node:child_process');
      const said = {};
      for (const [name, act] of [${cases.join(',')}])
        try { const got = await act(); said[name] = got?.error?.code ?? 'done'; } catch (error) { said[name] = error.code ?? String(error); }
      return said`,
      options,
    );
    expect(outcome).toMatchObject({ ok: true });
    return values(outcome)[0] as Record<string, string>;
  }

  const allRefused = async (attempts: Record<string, string>, options?: RunOptions) => {
    for (const [name, result] of Object.entries(await tryEach(attempts, options)))
      expect(`${name}: ${result}`).toMatch(new RegExp(`^${name}: ${REFUSED.source.slice(1)}`));
  };

  /** The control of refused attempts: code may do this with its own files. */
  const OWN_FILE = `os.tmpdir() + '/own'`;
  const allDone = async (attempts: Record<string, string>) =>
    expect(await tryEach(attempts)).toEqual(
      Object.fromEntries(Object.keys(attempts).map((name) => [name, 'done'])),
    );
  /** Attacks by one call of a source; its calls before and after that have to work. */
  async function attackOnce(body: string, options: RunOptions & { process: string }): Promise<Outcome> {
    const code = `if (!event.attack) return 'works'; ${body}`;
    const works = async () =>
      expect(values(await sandbox.run(code, { process: options.process }))).toEqual(['works']);
    await works();
    const outcome = await sandbox.run(code, { ...options, event: { attack: true } });
    await works();
    return outcome;
  }

  row('1', async () => {
    // Outside they can be read.
    for (const file of ['/proc/self/environ', '/proc/1/cmdline', `/proc/${process.pid}/cmdline`])
      expect(readFileSync(file).length).toBeGreaterThan(0);
    await allRefused({
      'process 1': `fs.readFileSync('/proc/1/environ')`,
      'command of process 1': `fs.readFileSync('/proc/1/cmdline')`,
      itself: `fs.readFileSync('/proc/self/environ')`,
      platform: `fs.readFileSync('/proc/${process.pid}/cmdline')`,
    });
    const [names] = values(await sandbox.run('return Object.keys(process.env).sort()'));
    expect(names).toEqual(['HOME', 'NODE_ENV', 'PATH', 'PD_COMPONENT', 'PWD', 'TMPDIR', 'TZ']);
  });

  row('2', async () => {
    const other = await liveSlot(sandbox, 'other/2');
    for (const file of [secret, other.code]) {
      expect(readFileSync(file).length).toBeGreaterThan(0);
      expect(statSync(file).mode & 0o004).toBe(0o004);
    }
    expect(isEnterable(dirname(secret))).toBe(true);
    for (const path of ['/etc/shadow', '/root', other.egress, other.tmp]) expect(existsSync(path)).toBe(true);
    await allDone({ 'its own file': `fs.writeFileSync(${OWN_FILE}, 'x') ?? fs.readFileSync(${OWN_FILE})` });
    await allRefused({
      secret: `fs.readFileSync(${JSON.stringify(secret)})`,
      'the data directory': `fs.readdirSync(${JSON.stringify(sandbox.dataDir)})`,
      'the code of another sandbox': `fs.readFileSync(${JSON.stringify(other.code)})`,
      'the network of another sandbox': `fs.readdirSync(${JSON.stringify(other.egress)})`,
      'the files of another sandbox': `fs.readdirSync(${JSON.stringify(other.tmp)})`,
      'all sandboxes': `fs.readdirSync(${JSON.stringify(dirname(other.path))})`,
      shadow: `fs.readFileSync('/etc/shadow')`,
      root: `fs.readdirSync('/root')`,
    });
  });

  row('3', async () => {
    expect(statSync('/usr/bin').isDirectory()).toBe(true);
    await allDone({
      'its own file by a link': `(fs.writeFileSync(${OWN_FILE}, 'x'), fs.symlinkSync('own', os.tmpdir() + '/link'), fs.statSync(os.tmpdir() + '/link'))`,
    });
    await allRefused({
      stat: `fs.statSync('/usr/bin')`,
      above: `fs.statSync('../../../../usr/bin')`,
      link: `(fs.symlinkSync('/usr/bin', os.tmpdir() + '/link'), fs.statSync(os.tmpdir() + '/link'))`,
      secret: `fs.statSync(${JSON.stringify(secret)})`,
    });
  });

  row('4', async () => {
    const { code } = await liveSlot(sandbox, 'row4/1');
    const before = readFileSync(code, 'utf8');
    // Outside they can be written, and it can write a file of its own.
    for (const path of [code, process.execPath]) accessSync(path, constants.W_OK);
    await allDone({ own: `fs.writeFileSync(${OWN_FILE}, 'x')` });
    const attempts = {
      code: `fs.writeFileSync(new URL(import.meta.url).pathname, '')`,
      beside: `fs.writeFileSync(process.env.HOME + '/x', '')`,
      node: `fs.openSync(process.execPath, 'r+')`,
      program: `fs.openSync(process.argv[1], 'r+')`,
      socket: `fs.unlinkSync(process.argv[2])`,
      'beside its socket': `fs.writeFileSync(process.argv[2] + 'x', '')`,
      permissions: `fs.chmodSync(process.env.HOME, 0o777)`,
    };
    await allRefused(attempts);
    expect(readFileSync(code, 'utf8')).toBe(before);
    // Its own code by the path of the host, which is the one that it has in tier none.
    await allRefused({ host: `fs.writeFileSync(${JSON.stringify(code)}, '')` });
    expect(readFileSync(code, 'utf8')).toBe(before);
  });

  row('5', async () => {
    // Outside both programs start.
    expect(spawnSync(process.execPath, ['-e', '0']).status).toBe(0);
    expect(spawnSync('/bin/sh', ['-c', 'true']).status).toBe(0);
    const title = `row5-${process.pid}`;
    const attempts = {
      title: `(process.title = ${JSON.stringify(title)}, spawnSync('/bin/true'))`,
      spawn: `spawnSync(process.execPath, ['-e', '0'])`,
      shell: `spawnSync('/bin/sh', ['-c', 'true'])`,
      exec: `execSync('true')`,
      fork: `new Promise((resolve, reject) => fork('x').on('error', reject).on('spawn', resolve))`,
      cluster: `import('node:cluster').then((c) => new Promise((resolve, reject) => c.default.fork().on('error', reject).on('online', resolve)))`,
    };
    await allRefused(attempts, { process: 'row5/1' });
    expect(descendants(pidOfTitle(title))).toEqual([]);
  });

  row('6', async () => {
    const look = `require('fs').writeSync(1, String(require('fs').existsSync('/usr/bin')))`;
    const replace = `process.execve(process.execPath, [process.execPath, '-e', ${JSON.stringify(look)}], {})`;
    // Outside it works, and the other Node.js sees the files.
    expect(spawnSync(process.execPath, ['-e', replace], { encoding: 'utf8' }).stdout).toBe('true');
    const outcome = await attackOnce(replace, { process: 'row6/1', timeoutMs: 10_000 });
    expect(outcome).toMatchObject({ ok: false });
    expect(outcome.logs.map(({ msg }) => msg).join()).not.toContain('true');
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
        const outcome = await attackOnce(body, { process: `row18/${endless.indexOf(body)}`, timeoutMs: 500 });
        expect(outcome).toMatchObject({ ok: false, reason: 'timeout' });
      }
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
      // A part of it may be used by anybody.
      for (const part of [
        'Buffer.alloc(16e6, 1)',
        'new SharedArrayBuffer(16e6)',
        'new WebAssembly.Memory({ initial: 256 }).buffer',
      ])
        expect(values(await sandbox.run(`return ${part}.byteLength >= 16e6`))).toEqual([true]);
      for (const body of bombs) {
        const outcome = await attackOnce(body, { process: 'row19/1', timeoutMs: 30_000 });
        expect(outcome).toMatchObject({ ok: false });
        if (!outcome.ok && outcome.reason === 'thrown') expect(outcome.error.name).toBe('RangeError');
        else expect(outcome).toMatchObject({ reason: 'memory' });
      }
      expect(process.memoryUsage().rss - before).toBeLessThan(300e6);
    },
    120_000,
  );

  row(
    '20',
    async () => {
      const open = (most: number) => `const open = []; let failure;
      try { while (open.length < ${most}) open.push(fs.openSync(import.meta.filename)) } catch ({ code }) { failure = code }
      for (const fd of open) fs.closeSync(fd);
      return [failure ?? 'none', open.length]`;
      expect(values(await sandbox.run(open(50)))).toEqual([['none', 50]]);
      const [[failure, count]] = values(await sandbox.run(open(Number.MAX_SAFE_INTEGER))) as [
        [string, number],
      ];
      expect(failure).toBe('EMFILE');
      expect(count).toBeGreaterThan(50);
      expect(count).toBeLessThan(CHILD_LIMITS.nofile);

      const threads = (count: number) => `const { Worker } = await import('node:worker_threads');
      let online = 0; const failures = new Set();
      const start = () => new Promise((resolve, reject) =>
        new Worker('setInterval(() => {}, 1000)', { eval: true }).on('error', reject).on('online', resolve));
      for (let i = 0; i < ${count}; i++) try { await start(); online += 1 } catch ({ code }) { failures.add(code) }
      return { online, failures: [...failures] }`;
      expect(values(await sandbox.run(threads(5)))).toEqual([{ online: 5, failures: [] }]);
      const title = `row20-${process.pid}`;
      const options = { process: 'row20/1', timeoutMs: 30_000 };
      const [many] = values(
        await sandbox.run(`process.title = ${JSON.stringify(title)}; ${threads(60)}`, options),
      ) as {
        online: number;
        failures: string[];
      }[];
      expect(many!.failures).toEqual(['ERR_WORKER_INIT_FAILED']);
      expect(many!.online).toBeGreaterThan(5);
      expect(many!.online).toBeLessThan(CHILD_LIMITS.nproc);
      // The host counts those of Node.js, too.
      const status = readFileSync(`/proc/${pidOfTitle(title)}/status`, 'utf8');
      const counted = Number(/^Threads:\s+(\d+)$/m.exec(status)![1]);
      expect(counted).toBeGreaterThan(many!.online);
      expect(counted).toBeLessThanOrEqual(CHILD_LIMITS.nproc);
    },
    60_000,
  );

  row(
    '26',
    async () => {
      const ends = [
        'process.exit(0)',
        'process.abort()',
        'fs.closeSync(3); await new Promise(() => {})',
        'for (const fd of [0, 1, 2, 3]) try { fs.closeSync(fd) } catch {} ; await new Promise(() => {})',
        `setTimeout(() => { throw new Error('uncaught') }, 0); await new Promise((resolve) => setTimeout(resolve, 50)); process.exit(1)`,
      ];
      for (const body of ends) {
        const outcome = await attackOnce(body, { process: 'row26/1', timeoutMs: 8000 });
        expect(outcome).toMatchObject({ ok: false });
      }
    },
    60_000,
  );

  row('27', async () => {
    const body = `const found = [globalThis.left, ...fs.readdirSync(os.tmpdir())].filter(Boolean);
      globalThis.left = 'x'; fs.writeFileSync(os.tmpdir() + '/left', 'x'); return found`;
    expect(values(await sandbox.run(body, { process: 'a/27' }))).toEqual([[]]);
    // The control: the same process finds it.
    expect(values(await sandbox.run(body, { process: 'a/27' }))).toEqual([['x', 'left']]);
    expect(values(await sandbox.run(body, { process: 'b/27' }))).toEqual([[]]);
  });

  row('30', async () => {
    // A listener can be reached on this port, and seen by the host.
    const listener = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
    await once(listener, 'listening');
    const { port } = listener.address() as { port: number };
    const isReachable = () =>
      new Promise((resolve) => {
        const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false));
        socket.on('close', () => socket.destroy());
      });
    expect(await isReachable()).toBe(true);
    expect(portsListenedTo(process.pid)).toContain(port);
    await new Promise((resolve) => listener.close(resolve));
    expect(await isReachable()).toBe(false);

    const title = `row30-${process.pid}`;
    const code = `if (globalThis.tried) return 'the same process';
      globalThis.tried = true;
      process.title = ${JSON.stringify(title)};
      const inspector = await import('node:inspector');
      try { inspector.open(${port}, '127.0.0.1') } catch {}
      try { process.kill(process.pid, 'SIGUSR1') } catch {}
      await new Promise((resolve) => setTimeout(resolve, 100));
      return inspector.url() ?? 'closed'`;
    expect(values(await sandbox.run(code, { process: 'row30/1' }))).toEqual(['closed']);
    expect(await isReachable()).toBe(false);
    const ports = portsListenedTo(pidOfTitle(title));
    expect(ports).not.toContain(port);
    if (tier === 'bubblewrap') expect(ports).toEqual([]);
    expect(values(await sandbox.run(code, { process: 'row30/1' }))).toEqual(['the same process']);
    // The control: Node.js opens it outside of a sandbox.
    const outside = `const inspector = require('inspector'); inspector.open(${port}, '127.0.0.1'); console.log(inspector.url()); process.exit()`;
    expect(spawnSync(process.execPath, ['-e', outside], { encoding: 'utf8' }).stdout).toContain(`:${port}/`);
  });
});
