import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { release } from 'node:os';
import { afterEach, expect, it } from '@jest/globals';
import { silentLog } from '@wellspring/core/log';
import { shortenTimeSlices } from './time-slice.ts';

const SHORT_NS = 100_000;
/** Starts a process for each line on stdin, and writes its id. */
const PROGRAM = `
  const { spawn } = require('node:child_process');
  process.stdin.on('data', () => console.log(spawn('sleep', ['60']).pid));
  console.log('ready');
`;
/** Older kernels have one slice for all. */
const [major = 0, minor = 0] = release().split('.').map(Number);
const hasSlices = process.platform === 'linux' && (major > 6 || (major === 6 && minor >= 12));

let child: ChildProcess | undefined;
afterEach(() => {
  // With the processes that it has started.
  if (child?.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  child = undefined;
});

async function start(): Promise<{ pid: number; startProcess(): Promise<number> }> {
  const started = spawn(process.execPath, ['-e', PROGRAM], { detached: true, stdio: 'pipe' });
  child = started;
  const line = async () => String((await once(started.stdout, 'data'))[0]);
  await line();
  return {
    pid: started.pid!,
    async startProcess() {
      started.stdin.write('\n');
      return Number(await line());
    },
  };
}

/** Of each thread, in ns. */
const slicesOf = (pid: number) =>
  readdirSync(`/proc/${pid}/task`).map((thread) =>
    Number(/^se\.slice\s*:\s*(\d+)$/m.exec(readFileSync(`/proc/${pid}/task/${thread}/sched`, 'latin1'))?.[1]),
  );

(hasSlices ? it : it.skip)(
  'all threads get the shortest slice, and processes that start later the normal one',
  async () => {
    const { pid, startProcess } = await start();
    const [normal = Number.NaN] = slicesOf(pid);
    expect(normal).toBeGreaterThan(SHORT_NS);

    await shortenTimeSlices(pid, silentLog);

    const slices = slicesOf(pid);
    expect(slices.length).toBeGreaterThan(1);
    expect(new Set(slices)).toEqual(new Set([SHORT_NS]));
    expect(slicesOf(await startProcess())).toEqual([normal]);
  },
);

it('a failure is logged', async () => {
  const warnings: string[] = [];
  const log = { ...silentLog, warn: (_fields: object, event: string) => void warnings.push(event) };
  // Greater than the kernel's limit.
  await shortenTimeSlices(2 ** 30, log);
  expect(warnings).toEqual(process.platform === 'linux' ? ['process.time_slices_not_set'] : []);
});
