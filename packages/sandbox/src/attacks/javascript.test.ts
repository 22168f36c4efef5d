import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, chmodSync, constants, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { beforeAll, describe, expect } from '@jest/globals';
import { forSuite } from '@wellspring/testing/lifetimes';
import { descendants } from '../processes.fixture.ts';
import { isEnterable } from '../readable-files.ts';
import { openSandbox, type RunOptions, TIERS, values } from '../sandbox.fixture.ts';
import { attackOnce, attackRow } from './attempt.fixture.ts';
import { liveProcess, pidOfTitle, portsListenedTo } from './host-view.fixture.ts';

const REFUSED = /^(E[A-Z]+|ERR_[A-Z_]+)$/;

describe.each(TIERS)('code in tier %s', (tier) => {
  const sandbox = forSuite(() => openSandbox(tier));
  let secret: string;
  beforeAll(() => {
    // Readable for every user: only the sandbox prevents access.
    chmodSync(sandbox.dataDir, 0o755);
    secret = join(sandbox.dataDir, 'canary');
    writeFileSync(secret, 'a secret of the host', { mode: 0o644 });
  });
  const row = attackRow(tier);

  /** Evaluates each expression. @returns error codes, or `done`, by name */
  async function tryEach(
    attempts: Record<string, string>,
    options: RunOptions = {},
  ): Promise<Record<string, string>> {
    const cases = Object.entries(attempts).map(([name, code]) => `[${JSON.stringify(name)}, () => ${code}]`);
    const outcome = await sandbox.run(
      `const { spawnSync, fork, execSync } = await import('node:child_process');
      const outcomes = {};
      for (const [name, act] of [${cases.join(',')}])
        try { const got = await act(); outcomes[name] = got?.error?.code ?? 'done'; } catch (error) { outcomes[name] = error.code ?? String(error); }
      return outcomes`,
      options,
    );
    expect(outcome).toMatchObject({ ok: true });
    return values(outcome)[0] as Record<string, string>;
  }

  const allRefused = async (attempts: Record<string, string>, options?: RunOptions) => {
    for (const [name, result] of Object.entries(await tryEach(attempts, options)))
      expect(`${name}: ${result}`).toMatch(new RegExp(`^${name}: ${REFUSED.source.slice(1)}`));
  };

  /** Positive control: code may do the same with its own files. */
  const OWN_FILE = `os.tmpdir() + '/own'`;
  const allDone = async (attempts: Record<string, string>) =>
    expect(await tryEach(attempts)).toEqual(
      Object.fromEntries(Object.keys(attempts).map((name) => [name, 'done'])),
    );

  row('1', async () => {
    // Positive control: outside of the sandbox they can be read.
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
    const other = await liveProcess(sandbox, 'other/2');
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
    const { code } = await liveProcess(sandbox, 'row4/1');
    const before = readFileSync(code, 'utf8');
    // Positive control: they can be written outside of the sandbox, and code can write its own file.
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
    // Its own code by the path on the host, which is also the path in tier none.
    await allRefused({ host: `fs.writeFileSync(${JSON.stringify(code)}, '')` });
    expect(readFileSync(code, 'utf8')).toBe(before);
  });

  row('5', async () => {
    // Positive control: outside of the sandbox both programs start.
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
    // Positive control: outside of the sandbox it works, and the other Node.js sees the files.
    expect(spawnSync(process.execPath, ['-e', replace], { encoding: 'utf8' }).stdout).toBe('true');
    const outcome = await attackOnce(sandbox, replace, { process: 'row6/1', timeoutMs: 10_000 });
    expect(outcome).toMatchObject({ ok: false });
    expect(outcome.logs.map(({ msg }) => msg).join()).not.toContain('true');
  });

  row('27', async () => {
    const body = `const found = [globalThis.left, ...fs.readdirSync(os.tmpdir())].filter(Boolean);
      globalThis.left = 'x'; fs.writeFileSync(os.tmpdir() + '/left', 'x'); return found`;
    expect(values(await sandbox.run(body, { process: 'a/27' }))).toEqual([[]]);
    // Positive control: the same process finds it.
    expect(values(await sandbox.run(body, { process: 'a/27' }))).toEqual([['x', 'left']]);
    expect(values(await sandbox.run(body, { process: 'b/27' }))).toEqual([[]]);
  });

  row('30', async () => {
    // Positive control: a listener on this port is reachable and visible to the host.
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
    // Positive control: outside of the sandbox the inspector opens.
    const outside = `const inspector = require('inspector'); inspector.open(${port}, '127.0.0.1'); console.log(inspector.url()); process.exit()`;
    expect(spawnSync(process.execPath, ['-e', outside], { encoding: 'utf8' }).stdout).toContain(`:${port}/`);
  });
});
