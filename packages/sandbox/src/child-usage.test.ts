import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { numbers } from '@wellspring/testing/numbers';
import { tempDir } from '@wellspring/testing/temp-dir';
import { createChildUsage } from './child-usage.ts';
import type { ProcessDirectory } from './process-directories.ts';
import { isStopped } from './processes.fixture.ts';
import { CHILD_LIMITS, type Tier } from './tiers/tier.ts';

test('a process that has ended by itself is charged for the time since its last figure, once and at most for its call', async () => {
  const child = spawn('sleep', ['600']);
  await once(child, 'spawn');
  const usage = createChildUsage({} as Tier, {} as ProcessDirectory, child.pid);
  usage.begin();
  expect(usage.takeCpuMs(0.1)).toBeLessThan(50);
  child.kill('SIGKILL');
  await once(child, 'exit');
  const cpuMs = usage.takeCpuMs(0.1);
  expect(cpuMs).toBeGreaterThan(0);
  expect(cpuMs).toBeLessThanOrEqual(0.1);
  expect(usage.takeCpuMs(0)).toBe(0);
  usage.close();
});

test('short calls are charged together, and nothing is lost', async () => {
  const child = spawn(process.execPath, ['-e', 'for (;;);']);
  await once(child, 'spawn');
  const usage = createChildUsage({} as Tier, {} as ProcessDirectory, child.pid);
  usage.begin();
  const before = usage.cpuMs(false)!;
  const charges: number[] = [];
  const sum = () => charges.reduce((all, ms) => all + ms, 0);
  while (sum() < 100) {
    charges.push(usage.takeCallCpuMs(0.1));
    await new Promise((resolve) => setImmediate(resolve));
  }
  // It uses nothing between the last charge and the figure that the sum is compared with.
  child.kill('SIGSTOP');
  await eventually(() => isStopped(child.pid!));
  charges.push(usage.takeCpuMs(0));
  expect(charges).toContain(0);
  expect(sum()).toBeCloseTo(usage.cpuMs(false)! - before, -1);
  child.kill('SIGKILL');
  await once(child, 'exit');
  usage.close();
});

test('quick checks measure a process that has changed', async () => {
  const child = spawn(process.execPath, [
    '-e',
    "let held = []; process.stdin.on('data', () => { held.push(Buffer.alloc(20e6, 1)); console.log('held'); })",
  ]);
  await once(child, 'spawn');
  child.stdin.write('1');
  await once(child.stdout, 'data');
  // The launcher measures the temporary directory itself.
  const usage = createChildUsage({ name: 'launcher' } as Tier, {} as ProcessDirectory, child.pid);
  usage.begin();
  await usage.findExcess(undefined);
  const before = usage.memoryBytes!;
  child.stdin.write('1');
  await once(child.stdout, 'data');
  expect(usage.memoryBytes).toBe(before);
  await usage.findExcess(undefined, true);
  expect(usage.memoryBytes).toBeGreaterThan(before + 15e6);
  child.kill('SIGKILL');
  await once(child, 'exit');
  usage.close();
});

test('the tenth quick check of a process that has not changed measures it all the same', async () => {
  await using directory = await tempDir();
  const child = spawn('sleep', ['600']);
  await once(child, 'spawn');
  child.kill('SIGSTOP');
  await eventually(() => isStopped(child.pid!));
  const tmp = { tmp: directory.path } as ProcessDirectory;
  const usage = createChildUsage({ name: 'none' } as Tier, tmp, child.pid);
  usage.begin();
  expect(await usage.findExcess(undefined)).toBeUndefined();
  for (const n of numbers(CHILD_LIMITS.tmpInodes + 1)) writeFileSync(join(directory.path, String(n)), '');
  for (const _ of numbers(9)) expect(await usage.findExcess(undefined, true)).toBeUndefined();
  expect(await usage.findExcess(undefined, true)).toMatchObject({ reason: 'limit' });
  child.kill('SIGKILL');
  await once(child, 'exit');
  usage.close();
});
