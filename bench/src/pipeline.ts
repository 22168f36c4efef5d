import { cpus } from 'node:os';
import { Ledger, type Offer, offer, percentile, type Round } from './load.ts';
import { startBenchPlatform } from './platform.ts';
import { cpuOf, memoryOf, startModule, writtenBy } from './processes.ts';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const EVENTS = Number(process.env.BENCH_EVENTS ?? 6000);
const SOURCES = Number(process.env.BENCH_SOURCES ?? 8);
/** Rates of the latency rounds, as shares of the full rate of one source. */
const SHARES = { 'a tenth': 0.1, 'a third': 1 / 3 };
/** Only these contestants, separated by semicolons; the bare pipe always takes part. */
const ONLY = process.env.BENCH_ONLY?.split(';');
const PIPE = 'bare pipe';

const median = (values: readonly number[]) =>
  percentile(
    [...values].sort((a, b) => a - b),
    50,
  );

/** A round with its cost per event: microseconds of CPU of the platform and its sandboxes, bytes written. */
interface Measured extends Round {
  cpuItself: number;
  cpuBelow: number;
  written: number;
  statements: number;
}

function line(name: string, rounds: readonly Measured[]): string {
  const of = (field: keyof Measured) => median(rounds.map((round) => round[field]));
  const sum = (field: keyof Measured) => rounds.reduce((total, round) => total + round[field], 0);
  return [
    name.padEnd(22),
    of('rate').toFixed(0).padStart(9),
    `${of('acceptP50').toFixed(1)} / ${of('acceptP99').toFixed(1)}`.padStart(16),
    `${of('deliveredP50').toFixed(1)} / ${of('deliveredP99').toFixed(1)}`.padStart(16),
    String(sum('lost')).padStart(6),
    String(sum('duplicated')).padStart(6),
    name.includes(PIPE)
      ? ''
      : `${of('cpuItself').toFixed(0)} + ${of('cpuBelow').toFixed(0)} µs, ${(of('written') / 1024).toFixed(1)} KB, ${of('statements').toFixed(1)}`.padStart(
          34,
        ),
  ].join('');
}

/**
 * Accepted → delivered, compared with a bare pipe: same generator, receiver and number of connections, in turns. The
 * ratio is independent of the machine.
 */
export async function comparePipeline(): Promise<void> {
  const ledger = new Ledger();
  const receiver = await startModule('./receiver.ts', [], ({ batch }: { batch: [number, number][] }) =>
    ledger.add(batch),
  );
  const target = `http://127.0.0.1:${receiver.port}/`;
  const pipe = await startModule('./pipe.ts', [target]);
  const flags = process.env.BENCH_NODE_FLAGS?.split(' ') ?? [];
  const platform = await startBenchPlatform(flags);
  try {
    const one = [await platform.deploy(target)];
    const several = await Promise.all(Array.from({ length: SOURCES }, () => platform.deploy(target)));
    const bare = [`http://127.0.0.1:${pipe.port}/`];
    const idleMemory = memoryOf(platform.pid);
    // Warms up.
    const { rate } = await offer({ urls: one }, ledger, 0, EVENTS);
    const contestants: Record<string, Offer> = {
      [PIPE]: { urls: bare },
      'one source': { urls: one },
      [`${SOURCES} sources`]: { urls: several },
    };
    for (const [share, factor] of Object.entries(SHARES)) {
      contestants[`${PIPE}, ${share}`] = { urls: bare, perSecond: rate * factor };
      contestants[`one source, ${share}`] = { urls: one, perSecond: rate * factor };
    }
    for (const name of Object.keys(contestants)) {
      if (name !== PIPE && ONLY && !ONLY.includes(name)) delete contestants[name];
    }
    const rounds = new Map<string, Measured[]>(Object.keys(contestants).map((name) => [name, []]));
    let first = EVENTS;
    let memory = 0;
    let delivered = EVENTS;
    const usage = async () => ({
      ...cpuOf(platform.pid),
      written: writtenBy(platform.pid),
      statements: await platform.statements(),
    });
    // The first round warms up and does not count.
    for (let round = 0; round <= ROUNDS; round++) {
      for (const [name, what] of Object.entries(contestants)) {
        const before = await usage();
        const result = await offer(what, ledger, first, EVENTS).catch((cause: unknown) => {
          throw new Error(`${name}, round ${round}: ${String(cause)}`, { cause });
        });
        const after = await usage();
        if (!name.startsWith(PIPE)) delivered += EVENTS;
        first += EVENTS;
        if (round > 0) {
          const used = (side: 'itself' | 'below') => ((after[side] - before[side]) / EVENTS) * 1e6;
          rounds.get(name)!.push({
            ...result,
            cpuItself: used('itself'),
            cpuBelow: used('below'),
            written: (after.written - before.written) / EVENTS,
            statements: (after.statements - before.statements) / EVENTS,
          });
        }
        memory = Math.max(memory, memoryOf(platform.pid));
      }
    }
    console.log(
      `\n${ROUNDS} rounds of ${EVENTS} events of 1 KB, 64 connections, ${cpus().length} cores; a tenth and a third of ${rate.toFixed(0)} events/s; medians\n`,
    );
    console.log(
      '                       events/s accept p50/p99  deliver p50/p99  lost twice  CPU, disk, statements an event',
    );
    for (const [name, results] of rounds) console.log(line(name, results));
    const base = median(rounds.get(PIPE)!.map(({ rate }) => rate));
    for (const [name, results] of rounds) {
      if (name === PIPE || contestants[name]!.perSecond !== undefined) continue;
      console.log(
        `ratio of ${name} to the bare pipe: ${(median(results.map(({ rate }) => rate)) / base).toFixed(2)}`,
      );
    }
    const mb = (bytes: number) => `${(bytes / 1024 / 1024).toFixed(0)} MB`;
    console.log(`memory of the platform with its sandboxes: ${mb(idleMemory)} idle, ${mb(memory)} at most`);
    const bytes = await platform.stop();
    console.log(`database: ${(bytes / delivered / 1024).toFixed(1)} KB an event`);
  } finally {
    await platform[Symbol.asyncDispose]();
    pipe.child.disconnect();
    receiver.child.disconnect();
  }
}
