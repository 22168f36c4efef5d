import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmdirSync } from 'node:fs';
import { chmod, chown, mkdir } from 'node:fs/promises';
import { getPriority, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { descendants, isAlive, isSandboxed, uidsOf, usePlatforms } from '../processes.fixture.ts';
import { openSandbox, TIERS, values } from '../sandbox.fixture.ts';
import { childrenOf } from '../spawner/process-tree.ts';
import { provideLauncher } from './compile-launcher.ts';

const SETCAP = ['/usr/sbin/setcap', '/sbin/setcap'].find(existsSync);
const USER = 54_321;

const { directory, start } = usePlatforms();

/**
 * Moves 128 MB between two directories during each measurement: out of the one that the launcher reads last as soon as
 * the access time of the first one shows that it was read, and back when the last one was read.
 */
const MOVE = `
  const { Worker } = await import('node:worker_threads');
  process.chdir(os.tmpdir());
  for (let n = 0; n < 3000; n++) fs.mkdirSync('d' + n);
  const order = [];
  const reader = fs.opendirSync('.');
  for (let entry; (entry = reader.readSync()); ) order.push(entry.name);
  reader.closeSync();
  let [to, from] = [order[0], order.at(-1)];
  fs.mkdirSync(from + '/x');
  const files = Array.from({ length: 8 }, (_, n) => fs.openSync(from + '/x/' + n, 'w'));
  const written = new Int32Array(new SharedArrayBuffer(4));
  new Worker(\`const fs = require('node:fs'); const { files, written } = require('node:worker_threads').workerData;
    for (const file of files) fs.writeSync(file, Buffer.alloc(16e6, 1));
    written[0] = 1\`, { eval: true, workerData: { files, written } });
  const readAt = (directory) => fs.statSync(directory, { bigint: true }).atimeNs;
  let seen = readAt(to);
  // The kernel updates the access time of a directory that has changed.
  fs.mkdirSync(to + '/y');
  fs.rmdirSync(to + '/y');
  for (let moves = 0; moves < 10; ) {
    if (readAt(to) === seen) continue;
    seen = readAt(from);
    fs.renameSync(from + '/x', to + '/x');
    moves += Atomics.load(written, 0);
    [from, to] = [to, from];
  }`;

/** Makes a directory of the working directory as large as 3,900 names make it. */
const FILL_DIRECTORY = `
  fs.mkdirSync('d');
  fs.writeFileSync('d/file', '');
  for (let n = 0; n < 3900; n++) fs.linkSync('d/file', 'd/' + String(n).padStart(255, 'x'));`;
/** Removes it while it is open. */
const LEAVE_BLOCKS = `${FILL_DIRECTORY}
  const directory = fs.openSync('d');
  fs.rmSync('d', { recursive: true });`;

/** Whether the file system of the temporary directories does not shrink directories. */
function keepsBlocks(): boolean {
  const path = mkdtempSync(join(tmpdir(), 'blocks-'));
  const code = `${LEAVE_BLOCKS} console.log(fs.fstatSync(directory).blocks)`;
  const blocks = execFileSync(process.execPath, ['-e', code], { cwd: path, encoding: 'utf8' });
  rmdirSync(path);
  return Number(blocks) > 2000;
}

const onLauncher = TIERS.includes('launcher') ? describe : describe.skip;

onLauncher('the temporary directory of tier launcher', () => {
  const fill = [
    ['4,096 files', `for (let i = 0; ; i++) fs.writeFileSync(os.tmpdir() + '/' + i, '')`],
    [
      '4,096 directories deep in each other',
      `for (let i = 0; ; i++) { process.chdir(os.tmpdir());
         for (let depth = 0; depth < 1000; depth++) { fs.mkdirSync('' + i); process.chdir('' + i) } }`,
    ],
    [
      '256 levels of directories',
      `process.chdir(os.tmpdir());
       for (let depth = 0; depth < 300; depth++) { fs.mkdirSync('d'); process.chdir('d') }
       for (;;);`,
    ],
    [
      '64 MB',
      `const much = Buffer.alloc(16e6, 1); for (let i = 0; i < 9; i++) { fs.writeFileSync(os.tmpdir() + '/' + i, much) } for (;;);`,
    ],
    [
      '64 MB in files without a name',
      `const much = Buffer.alloc(16e6, 1); for (let i = 0; i < 9; i++) {
         const file = os.tmpdir() + '/' + i; const fd = fs.openSync(file, 'w'); fs.unlinkSync(file); fs.writeSync(fd, much) }
       for (;;);`,
    ],
    ...(keepsBlocks()
      ? ([
          [
            '64 MB in the blocks of directories without a name',
            `process.chdir(os.tmpdir());
             for (let n = 0; n < 60; n++) { ${LEAVE_BLOCKS} }
             for (;;);`,
          ],
          [
            '64 MB with the blocks of its working directory, which has no name',
            `process.chdir(os.tmpdir());
             ${FILL_DIRECTORY}
             process.chdir('d');
             fs.rmSync(os.tmpdir() + '/d', { recursive: true });
             for (let n = 0; n < 2; n++) fs.writeFileSync(os.tmpdir() + '/' + n, Buffer.alloc(33.25e6, 1));
             for (;;);`,
          ],
        ] as const)
      : []),
    [
      '4,096 files behind permissions',
      `fs.mkdirSync(os.tmpdir() + '/d'); process.chdir(os.tmpdir() + '/d'); fs.chmodSync('.', 0o300);
       for (let i = 0; ; i++) fs.writeFileSync('' + i, '')`,
    ],
    ['64 MB that are moved while they are measured', MOVE],
  ] as const;

  test.each(fill)(
    'is limited to %s',
    async (_name, body) => {
      await using sandbox = await openSandbox('launcher');
      const outcome = await sandbox.run(body, { timeoutMs: 50_000 });
      expect(outcome).toMatchObject({
        ok: false,
        reason: 'limit',
        error: { message: expect.stringContaining('temporary directory') },
      });
    },
    60_000,
  );

  test('accepts less than the limit, in files that are created and removed', async () => {
    await using sandbox = await openSandbox('launcher');
    const outcome = await sandbox.run(
      `
      for (let i = 0; i < 3000; i++) fs.writeFileSync(os.tmpdir() + '/' + i, 'x');
      const end = performance.now() + 400;
      while (performance.now() < end) { fs.writeFileSync(os.tmpdir() + '/x', Buffer.alloc(8e6)); fs.unlinkSync(os.tmpdir() + '/x') }
      return fs.readdirSync(os.tmpdir()).length`,
      { timeoutMs: 50_000 },
    );
    expect(values(outcome)).toEqual([3000]);
  }, 60_000);

  test('is emptied behind code that has changed its permissions', async () => {
    await using sandbox = await openSandbox('launcher');
    await sandbox.run(`const name = 'd'.repeat(250);
      process.chdir(os.tmpdir());
      for (let depth = 0; depth < 20; depth++) { fs.mkdirSync(name); process.chdir(name) }
      fs.chmodSync('/tmp', 0)`);
    const base = createHash('sha256').update(resolve(sandbox.dataDir)).digest('hex').slice(0, 16);
    const processes = () =>
      readdirSync(join(tmpdir(), `wellspring-${base}`)).filter((name) => /^[0-9a-f]{24}$/.test(name));
    const filesOf = (name: string) => readdirSync(join(tmpdir(), `wellspring-${base}`, name, 'tmp'));
    await eventually(() => expect(processes().flatMap(filesOf)).toEqual([]));
  });

  test('keeps files from one call to the next', async () => {
    await using sandbox = await openSandbox('launcher');
    const code = (body: string) => `const n = fs.existsSync(os.tmpdir() + '/x'); ${body} return n`;
    const body = code(`fs.writeFileSync(os.tmpdir() + '/x', 'x');`);
    expect(values(await sandbox.run(body, { process: 'a/1' }))).toEqual([false]);
    expect(values(await sandbox.run(body, { process: 'a/1' }))).toEqual([true]);
    expect(values(await sandbox.run(body, { process: 'b/1' }))).toEqual([false]);
  });
});

const state = (pid: number) => /^State:\s+(\w)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1];

const testWithCapabilities = SETCAP && TIERS.includes('launcher') ? test : test.skip;
const CAPABILITIES = 'cap_sys_chroot,cap_setuid,cap_setgid=ep';

/** Directories of a platform that is not root, and a launcher with capabilities in its cache. */
async function prepareUser() {
  await chmod(directory.path, 0o755);
  const data = join(directory.path, 'data');
  const temporary = join(directory.path, 'tmp');
  const launcher = provideLauncher(join(data, 'cache'));
  execFileSync(SETCAP!, [CAPABILITIES, launcher]);
  await mkdir(temporary);
  await chmod(launcher, 0o755);
  for (const path of [data, temporary, join(data, 'cache')]) await chown(path, USER, USER);
  return { data, launcher, temporary, options: { uid: USER, gid: USER, temporary } };
}

testWithCapabilities(
  'a platform that is not root lowers the priority of code, signals and cleans up by means of the launcher with file capabilities',
  async () => {
    const { data, temporary, options } = await prepareUser();
    const platform = await start('launcher', data, options);
    const below = descendants(platform.pid!);
    const sandboxed = below.filter(isSandboxed);
    expect(sandboxed.length).toBeGreaterThanOrEqual(2);
    for (const pid of sandboxed) {
      expect(new Set(uidsOf(pid)).size).toBe(1);
      expect(uidsOf(pid)[0]).toBeGreaterThan(60_000);
      expect(getPriority(pid)).toBeGreaterThan(getPriority(platform.pid));
    }
    // The platform may signal the launcher but not the code; the launcher forwards the signal.
    // The others are idle, or start.
    const runsCode = (pid: number) => existsSync(`/proc/${pid}/root/tmp/a/b/c`) && state(pid) === 'R';
    const codePid = await eventually(() => sandboxed.find(runsCode) ?? false);
    const launcherPid = below.find((pid) => childrenOf(pid)?.includes(codePid))!;
    const asPlatform = (signal: string, pid: number) =>
      execFileSync('/usr/bin/setpriv', [
        `--reuid=${USER}`,
        `--regid=${USER}`,
        '--clear-groups',
        'kill',
        signal,
        String(pid),
      ]);
    expect(() => asPlatform('-STOP', codePid)).toThrow();
    asPlatform('-TSTP', launcherPid);
    await eventually(() => state(codePid) === 'T');
    asPlatform('-CONT', launcherPid);
    await eventually(() => state(codePid) === 'R');
    platform.kill('SIGKILL');
    await eventually(() => below.every((pid) => !isAlive(pid)));
    const [base] = readdirSync(temporary);
    const left = readdirSync(join(temporary, base!)).filter((name) => /^[0-9a-f]{24}$/.test(name));
    for (const directory of left) expect(readdirSync(join(temporary, base!, directory, 'tmp'))).toEqual([]);
    expect(left.length).toBeGreaterThan(0);
  },
);

testWithCapabilities(
  'a platform that is not root restarts after launchers were killed and left files of other users',
  async () => {
    const { data, launcher, temporary, options } = await prepareUser();
    let platform = await start('launcher', data, options);
    const below = descendants(platform.pid!);
    const launchers = below.filter((pid) => childrenOf(pid)?.some(isSandboxed));
    expect(launchers.length).toBeGreaterThanOrEqual(2);
    // Root of a jail of the packager whose launcher was also killed.
    const [work] = readdirSync(join(temporary, readdirSync(temporary)[0]!, 'shared/packager'), {
      withFileTypes: true,
    }).filter((entry) => entry.isDirectory());
    const jail = join(work!.parentPath, work!.name, 'a'.repeat(24));
    for (const path of [jail, join(jail, 'tmp'), join(jail, 'tmp/project')]) await mkdir(path);
    for (const path of [jail, join(jail, 'tmp')]) await chown(path, USER, USER);
    await chmod(join(jail, 'tmp'), 0o777);
    await chown(join(jail, 'tmp/project'), 2_000_000_123, 2_000_000_123);
    await chmod(join(jail, 'tmp/project'), 0o700);
    // Stopped launchers cannot clean up when the platform ends.
    for (const pid of launchers) process.kill(pid, 'SIGSTOP');
    platform.kill('SIGKILL');
    for (const pid of launchers) process.kill(pid, 'SIGKILL');
    await eventually(() => below.every((pid) => !isAlive(pid)));
    const [base] = readdirSync(temporary);
    const directories = readdirSync(join(temporary, base!)).map((name) => join(temporary, base!, name));
    const left = directories.filter((directory) => existsSync(join(directory, 'tmp/a/b/c')));
    expect(left).toHaveLength(1);
    const asUser = ['--reuid', String(USER), '--regid', String(USER), '--clear-groups'];
    expect(() => execFileSync('/usr/bin/setpriv', [...asUser, 'rm', join(left[0]!, 'tmp/a/b/c')])).toThrow();

    // Without a launcher that may remove the files, another directory is used.
    execFileSync(SETCAP!, ['-r', launcher]);
    platform = await start('none', data, options);
    expect(readdirSync(temporary).sort()).toEqual([base, expect.stringContaining(`${base}-`)]);
    expect(existsSync(join(left[0]!, 'tmp/a/b/c'))).toBe(true);
    expect(existsSync(join(jail, 'tmp/project'))).toBe(true);
    const second = descendants(platform.pid!);
    platform.kill('SIGKILL');
    await eventually(() => second.every((pid) => !isAlive(pid)));

    execFileSync(SETCAP!, [CAPABILITIES, launcher]);
    platform = await start('launcher', data, options);
    expect(existsSync(left[0]!)).toBe(false);
    expect(existsSync(jail)).toBe(false);
    expect(existsSync(join(temporary, base!, 'shared'))).toBe(true);
  },
  120_000,
);
