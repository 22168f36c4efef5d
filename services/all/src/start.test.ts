import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { freePort } from '@wellspring/testing/free-port';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const ENDS = { ms: 40_000, every: 50 };

interface Started {
  npx: ChildProcess;
  /** The platform. */
  main: number;
  /** Its parent. */
  pnpm: number;
  url: string;
  output(): string;
}

let dir: TempDir | undefined;
let started: Started | undefined;
afterEach(async () => {
  for (const pid of [started?.npx.pid, started?.pnpm, started?.main])
    if (pid && alive(pid)) process.kill(pid, 'SIGKILL');
  await dir?.remove();
});

/** Undefined: there is no such process. */
function look(pid: number): { parent: number; command: string } | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (state === 'Z') return undefined;
    return {
      parent: Number(parent),
      command: readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' '),
    };
  } catch {
    return undefined;
  }
}
const alive = (pid: number) => look(pid) !== undefined;

function isBelow(pid: number, ancestor: number): boolean {
  const parent = look(pid)?.parent;
  return parent === ancestor || (parent !== undefined && parent > 1 && isBelow(parent, ancestor));
}

/** The platform by `npx pnpm start`, as in the README. */
async function start(): Promise<Started> {
  dir = await tempDir();
  const port = await freePort();
  const npx = spawn('npx', ['-y', 'pnpm@12', 'start'], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'pipe'],
    // A process group, as a shell makes one for a job.
    detached: true,
    env: {
      ...Object.fromEntries(
        Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_OPTIONS)/.test(name)),
      ),
      WELLSPRING_DATA_DIR: dir.path,
      WELLSPRING_PORT: String(port),
      WELLSPRING_ADMIN_PORT: String(await freePort()),
      WELLSPRING_ISOLATION: 'none',
    },
  });
  let output = '';
  npx.stdout.on('data', (chunk) => {
    output += chunk;
  });
  const url = `http://127.0.0.1:${port}`;
  await eventually(async () => (await fetch(`${url}/ready`)).ok, { ms: 90_000, every: 50 });
  const main = readdirSync('/proc')
    .map(Number)
    .find(
      (pid) =>
        pid > 0 && /services\/all\/src\/main\.ts/.test(look(pid)?.command ?? '') && isBelow(pid, npx.pid!),
    );
  started = { npx, main: main!, pnpm: look(main!)!.parent, url, output: () => output };
  return started;
}

test.each([
  ['SIGTERM to npx', 'npx', 'SIGTERM'],
  ['SIGINT of a terminal', 'group', 'SIGINT'],
  ['SIGTERM to the process group', 'group', 'SIGTERM'],
  ['SIGKILL to npx', 'npx', 'SIGKILL'],
  ['SIGTERM to pnpm', 'pnpm', 'SIGTERM'],
  ['SIGKILL to pnpm', 'pnpm', 'SIGKILL'],
] as const)(
  '%s ends the platform that it started, without a shell between',
  async (_title, what, signal) => {
    const { npx, main, pnpm, output } = await start();
    expect(look(pnpm)?.command).toMatch(/pnpm start/);
    process.kill({ npx: npx.pid!, group: -npx.pid!, pnpm }[what], signal);
    await eventually(() => !alive(main), ENDS);
    await eventually(() => !alive(pnpm), ENDS);
    // A second signal, passed on by npx or pnpm, would end it at once.
    if (signal !== 'SIGKILL') await eventually(() => output().includes('process.stopped'));
  },
  180_000,
);

test('the platform of `nohup npx pnpm start &` goes on when its terminal is closed', async () => {
  const { npx, main, url } = await start();
  // The shell tells its jobs; node does not inherit that nohup ignores it.
  process.kill(-npx.pid!, 'SIGHUP');
  process.kill(main, 'SIGHUP');
  await eventually(() => !alive(npx.pid!), ENDS);
  // Longer than it takes to notice that npx is gone.
  const until = performance.now() + 2_000;
  await eventually(() => performance.now() > until);
  expect((await fetch(`${url}/ready`)).ok).toBe(true);
  process.kill(main, 'SIGTERM');
  await eventually(() => !alive(main), ENDS);
}, 180_000);
