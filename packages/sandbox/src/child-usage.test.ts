import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from '@jest/globals';
import { createChildUsage } from './child-usage.ts';
import type { ProcessDirectory } from './process-directories.ts';
import type { Tier } from './tiers/tier.ts';

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
  charges.push(usage.takeCpuMs(0));
  expect(charges).toContain(0);
  expect(sum()).toBeCloseTo(usage.cpuMs(false)! - before, -1);
  child.kill('SIGKILL');
  await once(child, 'exit');
  usage.close();
});
