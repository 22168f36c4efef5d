import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { silentLog } from '@wellspring/core/log';
import { eventually } from '@wellspring/testing/eventually';
import fc from 'fast-check';
import { argumentsOf, descendants } from './processes.fixture.ts';
import { openSandbox, type TestSandbox, TIERS } from './sandbox.fixture.ts';
import {
  lowerPriority,
  onProcessors,
  parseProcessors,
  processorsForCode,
  processorsOf,
} from './scheduling.ts';

test('lists of processors are read as the kernel writes them', () => {
  const ranges = fc.uniqueArray(fc.integer({ min: 0, max: 300 }), { minLength: 1 }).map((numbers) =>
    numbers
      .toSorted((a, b) => a - b)
      .reduce<[number, number][]>((all, n) => {
        const last = all.at(-1);
        if (last?.[1] === n - 1) last[1] = n;
        else all.push([n, n]);
        return all;
      }, []),
  );
  fc.assert(
    fc.property(ranges, (all) => {
      const list = all.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(',');
      const numbers = all.flatMap(([first, last]) =>
        Array.from({ length: last - first + 1 }, (_, index) => first + index),
      );
      expect(parseProcessors(list)).toEqual(numbers);
    }),
  );
});

const own = processorsOf('self');
const onSeveral = own.length > 1 ? test : test.skip;

onSeveral('the first processors are reserved, and at least one is left', () => {
  expect(processorsForCode(0, silentLog)).toBeUndefined();
  expect(processorsForCode(1, silentLog)).toEqual(own.slice(1));
  expect(processorsForCode(own.length, silentLog)).toEqual(own.slice(-1));
});

onSeveral('where taskset is missing or refused, code may use all processors, and the log says so', () => {
  const warnings: unknown[] = [];
  const log = { ...silentLog, warn: (...line: unknown[]) => void warnings.push(line) };
  expect(processorsForCode(1, log, '/bin/false')).toBeUndefined();
  expect(processorsForCode(1, log, '/does/not/exist')).toBeUndefined();
  expect(warnings).toEqual([
    [{ message: expect.stringContaining('/bin/false') }, 'sandbox.processors_not_reserved'],
    [{ message: expect.stringContaining('ENOENT') }, 'sandbox.processors_not_reserved'],
  ]);
});

test('a command without a limit of its processors stays as it is', () => {
  expect(onProcessors(undefined, ['node', '-v'])).toEqual(['node', '-v']);
});

/** The processes that start user code, and install and compile packages. */
const starters = () =>
  descendants(process.pid).filter((pid) =>
    argumentsOf(pid).some((argument) => /\/(spawner|packager-process)\.\w+$/.test(argument)),
  );

/** Priority of the scheduling group of a process; undefined: it has none, or has ended. */
function groupNice(pid: number): number | undefined {
  try {
    return Number(/nice (-?\d+)/.exec(readFileSync(`/proc/${pid}/autogroup`, 'utf8'))![1]);
  } catch {
    return undefined;
  }
}

const whereGrouped = groupNice(process.pid) === undefined ? test.skip : test;

whereGrouped(
  'a process without a session of its own does not change the priority of its parent',
  async () => {
    writeFileSync('/proc/self/autogroup', String(os.getPriority()));
    const child = spawn('sleep', ['600']);
    await once(child, 'spawn');
    lowerPriority(child.pid);
    expect(os.getPriority(child.pid)).toBeGreaterThan(os.getPriority());
    expect(groupNice(process.pid)).toBe(os.getPriority());
    child.kill();
    await once(child, 'exit');
  },
);

describe.each(TIERS)('in tier %s', (tier) => {
  let sandbox: TestSandbox;
  beforeAll(async () => {
    sandbox = await openSandbox(tier, { pool: 1 });
    // The jail of the compiler remains for some time, as does the process of the code.
    await sandbox.run('return 1', { process: 'scheduling/1' });
  });
  afterAll(async () => {
    await sandbox[Symbol.asyncDispose]();
  });

  onSeveral('no code, package or compiler runs on the reserved processor', () => {
    const processes = starters().flatMap((pid) => [pid, ...descendants(pid)]);
    expect(processes.length).toBeGreaterThanOrEqual(4);
    for (const pid of processes) expect([own.slice(1), []]).toContainEqual(processorsOf(pid));
  });

  whereGrouped('the session of each process with foreign data has a lower priority', async () => {
    await eventually(() => {
      const nice = starters()
        .flatMap(descendants)
        .flatMap((pid) => groupNice(pid) ?? []);
      expect(nice.length).toBeGreaterThanOrEqual(2);
      expect(Math.min(...nice)).toBeGreaterThanOrEqual(Math.min(os.getPriority() + 5, 19));
    });
  });
});
