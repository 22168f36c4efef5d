import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { now } from '../load.ts';
import { echoTimes, endBareNode, startBareNode } from './bare-node.ts';
import { type Component, openBenchSandbox } from './bench-sandbox.ts';
import { ms, p50, percentileOf, type Row } from './goals.ts';

/** Of each kind, after as many to warm up. */
const CALLS = Number(process.env.BENCH_CALLS ?? 4000);
/** Each has new processes: the same work takes up to twice as long in one process as in another. */
const ROUNDS = 5;
/** Bytes of an event. */
const EVENT = { n: 0, text: 'x'.repeat(380) };
const EMIT = `export default { name: 'emit', props: { db: '$.service.db' }, run(event) {
  this.$emit(event); this.db.set('n', event.n);
} };`;

async function serialCalls(component: Component, process: string): Promise<number[]> {
  const times: number[] = [];
  for (let n = 0; n < CALLS; n += 1) {
    const began = now();
    await component.call(process, { ...EVENT, n });
    times.push(now() - began);
  }
  return times;
}

/** @returns calls per second with this many in flight in the process */
async function rate(component: Component, process: string, together: number): Promise<number> {
  let next = 0;
  const began = now();
  await Promise.all(
    Array.from({ length: together }, async () => {
      while (next < CALLS) {
        next += 1;
        await component.call(process, { ...EVENT, n: next });
      }
    }),
  );
  return (CALLS / (now() - began)) * 1000;
}

/**
 * Runs the work with this process, and those that it starts, on one processor. On several, the scheduler decides whether
 * a wake-up of the other side takes 5 or 50 µs, and may decide differently for the call and the echo.
 */
async function onOneProcessor<T>(work: () => Promise<T>): Promise<T> {
  const allow = (processors: string) => {
    const { status } = spawnSync('taskset', ['-acp', processors, String(process.pid)]);
    if (status !== 0) throw new Error('taskset failed. Install util-linux.');
  };
  allow('0');
  try {
    return await work();
  } finally {
    allow(`0-${availableParallelism() - 1}`);
  }
}

/** A warm call, compared with an echo over a socket pair and with a child without isolation; turns alternate. */
export const callRows = (tier: 'bubblewrap' | 'launcher' | 'none'): Promise<Row[]> =>
  onOneProcessor(() => measure(tier));

async function measure(tier: 'bubblewrap' | 'launcher' | 'none'): Promise<Row[]> {
  await using sandbox = await openBenchSandbox(tier);
  await using plain = await openBenchSandbox('none');
  const isolated = await sandbox.component(EMIT);
  const unisolated = await plain.component(EMIT);
  const times = { echo: [] as number[], warm: [] as number[], plain: [] as number[] };
  const rates = { serial: [] as number[], many: [] as number[] };
  for (let round = 0; round < ROUNDS; round += 1) {
    const key = `calls/${round}`;
    const node = await startBareNode();
    for (const measured of [false, true]) {
      const echo = await echoTimes(node, CALLS, 500);
      const warm = await serialCalls(isolated, key);
      const bare = await serialCalls(unisolated, key);
      if (!measured) continue;
      times.echo.push(...echo);
      times.warm.push(...warm);
      times.plain.push(...bare);
    }
    rates.serial.push(await rate(isolated, key, 1));
    rates.many.push(await rate(isolated, key, 64));
    await endBareNode(node);
    for (const { executor } of [sandbox, plain]) executor.retire(key, { atOnce: true });
  }
  const [serial, many] = [p50(rates.serial), p50(rates.many)];
  const [echo, warm, bare] = [p50(times.echo), p50(times.warm), p50(times.plain)];
  return [
    {
      what: 'warm call : raw echo over a socket pair (p50)',
      measured: warm / echo,
      goal: 3,
      unit: '×',
      behind: `${ms(warm)} : ${ms(echo)}`,
    },
    {
      what: 'warm call, p99',
      measured: percentileOf(times.warm, 99),
      goal: 1,
      unit: ' ms',
      behind: `echo ${ms(percentileOf(times.echo, 99))}`,
    },
    {
      what: 'warm call : the same in tier none (p50)',
      measured: warm / bare,
      goal: 1.15,
      unit: '×',
      behind: `${ms(warm)} : ${ms(bare)}`,
    },
    {
      what: 'serial calls a second : echoes a second',
      measured: serial / (1000 / echo),
      goal: 0.4,
      atLeast: true,
      unit: '×',
      behind: `${serial.toFixed(0)} : ${(1000 / echo).toFixed(0)}`,
    },
    {
      what: '64 calls under way : serial (calls a second)',
      measured: many / serial,
      goal: 1.6,
      atLeast: true,
      unit: '×',
      behind: `${many.toFixed(0)} : ${serial.toFixed(0)}`,
    },
  ];
}
