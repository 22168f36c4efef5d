import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { now } from '../load.ts';
import { echoTimes, endBareNode, startBareNode } from './bare-node.ts';
import { type BenchSandbox, openBenchSandbox } from './bench-sandbox.ts';
import { ms, p50, percentileOf, type Row } from './goals.ts';

const CALLS = Number(process.env.BENCH_CALLS ?? 4000);
/** Bytes of an event. */
const EVENT = { n: 0, text: 'x'.repeat(380) };
const EMIT = `export default { name: 'emit', props: { db: '$.service.db' }, run(event) {
  this.$emit(event); this.db.set('n', event.n);
} };`;

/** Process of the calls. */
const KEY = 'calls/warm';

async function serialCalls(sandbox: BenchSandbox, calls: number): Promise<number[]> {
  const component = await sandbox.component(EMIT);
  const times: number[] = [];
  for (let n = 0; n < calls; n += 1) {
    const began = now();
    await component.call(KEY, { ...EVENT, n });
    times.push(now() - began);
  }
  return times;
}

/** @returns calls per second with this many in flight in the warm process */
async function rate(sandbox: BenchSandbox, together: number): Promise<number> {
  const component = await sandbox.component(EMIT);
  let next = 0;
  const began = now();
  await Promise.all(
    Array.from({ length: together }, async () => {
      while (next < CALLS) {
        next += 1;
        await component.call(KEY, { ...EVENT, n: next });
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
  const node = await startBareNode();
  const times = { echo: [] as number[], warm: [] as number[], plain: [] as number[] };
  // The first round warms up.
  for (let round = 0; round < 5; round += 1) {
    const calls = round === 0 ? CALLS : CALLS / 4;
    const echo = await echoTimes(node, calls, 500);
    const warm = await serialCalls(sandbox, calls);
    const bare = await serialCalls(plain, calls);
    if (round === 0) continue;
    times.echo.push(...echo);
    times.warm.push(...warm);
    times.plain.push(...bare);
  }
  await endBareNode(node);
  const serial = await rate(sandbox, 1);
  const many = await rate(sandbox, 64);
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
