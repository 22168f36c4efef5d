import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, expect, jest, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { freePort } from '@wellspring/testing/free-port';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';

// A start takes long on a busy machine.
jest.setTimeout(120_000);

const MAIN = fileURLToPath(new URL('main.ts', import.meta.url));
const SECRET = 'an-api-key-that-nobody-sees';

let dir: TempDir;
let env: Record<string, string>;

beforeAll(async () => {
  dir = await tempDir();
  env = {
    PATH: '/usr/local/bin:/usr/bin:/bin',
    WELLSPRING_DATA_DIR: dir.path,
    WELLSPRING_PORT: String(await freePort()),
    WELLSPRING_ADMIN_PORT: String(await freePort()),
    WELLSPRING_API_KEY: SECRET,
  };
});
afterAll(() => dir.remove());

const run = (args: string[], extra: Record<string, string> = {}) =>
  new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
    execFile(process.execPath, [MAIN, ...args], { env: { ...env, ...extra } }, (error, stdout, stderr) =>
      resolve({ code: error ? Number(error.code) : 0, stdout, stderr }),
    );
  });

test('an invalid configuration ends the start with code 78 and all its faults', async () => {
  const { code, stdout, stderr } = await run([], { WELLSPRING_PORT: 'x', WELLSPRING_ISOLATION: 'y' });
  expect([code, stdout]).toEqual([78, '']);
  expect(stderr).toContain('WELLSPRING_PORT has to be an integer');
  expect(stderr).toContain('WELLSPRING_ISOLATION has to be one of');
  expect(stderr).not.toContain('    at ');
});

test('--help names the services and settings, also if one is invalid', async () => {
  const { code, stdout } = await run(['--help'], { WELLSPRING_PORT: 'x' });
  expect(code).toBe(0);
  expect(stdout).toMatch(/^Usage: start .*\n\nServices: gateway, .*\n\nSettings:\n {2}WELLSPRING_HOST /);
});

(process.getuid?.() === 0 ? test : test.skip)(
  'isolation that does not work here ends the start with code 78, the reason and what to do',
  async () => {
    // Of mode 0700: the users of sandboxes may not enter it.
    const { code, stderr } = await run([], { WELLSPRING_ISOLATION: 'bubblewrap', TMPDIR: dir.path });
    expect(code).toBe(78);
    expect(stderr).toMatch(/bubblewrap: .*Set TMPDIR/);
  },
);

test('the configuration can be checked and printed, without its secrets', async () => {
  expect(await run(['--check-config'])).toEqual({
    code: 0,
    stdout: 'The configuration is valid.\n',
    stderr: '',
  });
  expect(await run(['--check-config'], { WELLSPRING_PROT: '1' })).toEqual({
    code: 1,
    stdout: '',
    stderr:
      'The configuration is not valid:\n  WELLSPRING_PROT is not a variable of Wellspring; did you mean WELLSPRING_PORT?\n',
  });
  expect((await run(['--check-config'], { WELLSPRING_PORT: 'x', WELLSPRING_MONGO_URL: 'x' })).stderr).toMatch(
    /WELLSPRING_PORT .*\n {2}WELLSPRING_MONGO_URL is not .* did you mean WELLSPRING_MONGODB_URL\?/,
  );
  const { code, stdout } = await run(['--print-config']);
  expect(code).toBe(0);
  expect(stdout).toContain(`WELLSPRING_PORT=${env.WELLSPRING_PORT}\n`);
  expect(stdout).not.toContain(SECRET);
  expect((await run(['--unknown'])).code).toBe(1);
  expect((await run(['runnner'])).stderr).toContain('names runnner');
});

const isRunning = ({ exitCode, signalCode }: ChildProcess) => (exitCode ?? signalCode) === null;
const children: { child: ChildProcess; ended: Promise<unknown> }[] = [];
afterEach(async () => {
  for (const { child, ended } of children.splice(0)) {
    child.kill('SIGKILL');
    await ended;
  }
});

/** Starts Node with these arguments, and waits until the platform is ready. */
async function start(args: string[]) {
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  const ended = once(child, 'exit');
  children.push({ child, ended });
  const url = `http://127.0.0.1:${env.WELLSPRING_PORT}`;
  const isOver = async () => !isRunning(child) || (await fetch(`${url}/ready`)).status === 200;
  await eventually(isOver, { ms: 90_000, every: 50 });
  if (!isRunning(child)) throw new Error(`The platform ended:\n${output}`);
  return {
    child,
    ended,
    url,
    /** Of stdout so far. */
    get output() {
      return output;
    },
  };
}

test.each(['SIGTERM', 'SIGINT'] as const)('the platform starts, and %s ends it in order', async (signal) => {
  const platform = await start([MAIN, 'start']);
  const { child, ended, url } = platform;
  const me = await fetch(`${url}/v1/users/me`, { headers: { authorization: `Bearer ${SECRET}` } });
  expect(((await me.json()) as { data: { username: string } }).data.username).toBe('admin');
  // One data directory, one process.
  const second = await run([], {
    WELLSPRING_PORT: String(await freePort()),
    WELLSPRING_ADMIN_PORT: String(await freePort()),
  });
  expect([second.code, second.stderr]).toEqual([1, expect.stringContaining('in use by another process')]);
  child.kill(signal);
  expect(await ended).toEqual([0, null]);
  const { output } = platform;
  const events = output
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { event: string }).event);
  expect(events).toEqual(
    expect.arrayContaining(['process.started', 'http.request', 'process.draining', 'process.stopped']),
  );
  expect(output).not.toContain(SECRET);
});

test('another root key than that of the data is refused with code 78 and the name of the setting', async () => {
  const { code, stdout, stderr } = await run([], {
    WELLSPRING_SECRET_KEY: 'another root key of thirty-two characters',
  });
  expect([code, stdout]).toEqual([78, '']);
  expect(stderr).toMatch(/^WELLSPRING_SECRET_KEY is not the root key of the data/);
});

test('data that were moved to other servers are refused with code 78', async () => {
  const moved = join(dir.path, 'moved');
  writeFileSync(moved, '');
  try {
    const { code, stderr } = await run([]);
    expect([code, stderr]).toEqual([78, expect.stringContaining('was moved to other servers')]);
  } finally {
    rmSync(moved);
  }
});

test.each([
  ['error', 'throw new Error("nobody expects it")'],
  ['rejection', 'Promise.reject(new Error("nobody expects it"))'],
])('an unhandled %s is logged and ends the platform in order with code 1', async (_what, fault) => {
  const preload = `data:text/javascript,process.on('SIGUSR2', () => { ${fault} })`;
  const platform = await start(['--import', preload, MAIN]);
  platform.child.kill('SIGUSR2');
  expect(await platform.ended).toEqual([1, null]);
  const { output } = platform;
  expect(output).toMatch(/"process.unexpected"(.|\n)*"process.stopped"/);
  expect(output).toContain('nobody expects it');
});
